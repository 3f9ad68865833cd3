# SPDX-License-Identifier: Apache-2.0
"""Hugging Face Trainer: its clipping is replaced, grad_norm is the norm before, a resumed run is the same run."""

import functools
import math
import shutil
import types

import pytest
import torch

pytest.importorskip("transformers", reason="needs transformers")
pytest.importorskip("accelerate", reason="needs accelerate")
from accelerate.state import AcceleratorState, PartialState
from accelerate.utils import DistributedType
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainerCallback, TrainingArguments

import spectralclip
from spectralclip.integrations import metrics
from spectralclip.integrations.transformers import STATE_FILE, SpectralClipCallback, attach, detach

THRESHOLD = spectralclip.Ema(0.9, slack=0.8)  # below the average, so that something is clipped at every step but one


def make_model():
    torch.manual_seed(0)
    sizes = {"vocab_size": 16, "n_positions": 8, "n_embd": 8, "n_layer": 1, "n_head": 2}
    return GPT2LMHeadModel(GPT2Config(**sizes, bos_token_id=0, eos_token_id=0, loss_type="ForCausalLM"))


def data(samples=48):
    generator = torch.Generator().manual_seed(1)
    tokens = [torch.randint(0, 16, (8,), generator=generator) for _ in range(samples)]
    return [{"input_ids": t, "labels": t} for t in tokens]


class Spy(TrainerCallback):
    """What the optimizer is about to see."""

    def __init__(self):
        self.norms, self.sigmas = [], []

    def on_pre_optimizer_step(self, args, state, control, model=None, **kwargs):
        named = {name: p.grad for name, p in model.named_parameters() if p.grad is not None}
        self.norms.append(torch.linalg.vector_norm(torch.stack([g.norm() for g in named.values()])).item())
        self.sigmas.append(torch.linalg.matrix_norm(named["transformer.h.0.mlp.c_fc.weight"], 2).item())


def make_trainer(directory, *, callbacks=(), samples=48, model=None, steps=6, **arguments):
    chosen = {"max_grad_norm": 1.0, "save_strategy": "no", "max_steps": steps, **arguments}
    args = TrainingArguments(
        str(directory), per_device_train_batch_size=4, learning_rate=1e-2, logging_steps=1, report_to=[], use_cpu=True,
        disable_tqdm=True, dataloader_pin_memory=False, seed=3, **chosen,
    )  # fmt: skip
    how = {"model_init": model} if isinstance(model, types.FunctionType) else {"model": model or make_model()}
    return Trainer(args=args, train_dataset=data(samples), callbacks=list(callbacks), **how)


def logged(trainer, name):
    return [entry[name] for entry in trainer.state.log_history if name in entry]


def weights(trainer):
    return torch.nn.utils.parameters_to_vector(trainer.model.parameters()).detach()


def attached(directory, spy=None, **arguments):
    options = {"threshold": arguments.pop("threshold", THRESHOLD), "log": arguments.pop("log", metrics)}
    trainer = make_trainer(directory, **arguments)
    callback = attach(trainer, **options)
    if spy is not None:
        trainer.add_callback(spy)
    return trainer, callback


def test_grad_norm_is_the_norm_before_clipping(tmp_path):
    plain_spy, spy = Spy(), Spy()
    plain = make_trainer(tmp_path, callbacks=[plain_spy], steps=1, max_grad_norm=0)
    plain.train()
    tau = plain_spy.sigmas[0] / 10
    trainer, _ = attached(tmp_path, spy, steps=1, threshold=tau)
    trainer.train()
    assert logged(trainer, "grad_norm") == pytest.approx(logged(plain, "grad_norm"), rel=1e-6)
    assert logged(trainer, "grad_norm") == pytest.approx(plain_spy.norms, rel=1e-6)
    assert spy.sigmas[0] == pytest.approx(tau, rel=1e-4)
    assert spy.norms[0] < 0.99 * plain_spy.norms[0]
    assert logged(trainer, "spectralclip/norm_after") == pytest.approx(spy.norms, rel=1e-5)
    assert logged(trainer, "spectralclip/total_norm") == logged(trainer, "grad_norm")


@pytest.mark.parametrize("max_grad_norm", [0.0, 1e-6])
def test_the_clipping_of_trainer_is_replaced(tmp_path, max_grad_norm):
    """With a threshold nobody reaches, nothing is clipped, whatever max_grad_norm says."""
    spy = Spy()
    trainer, callback = attached(tmp_path, spy, steps=2, threshold=1e9, max_grad_norm=max_grad_norm)
    trainer.train()
    assert spy.norms == pytest.approx(logged(trainer, "grad_norm"), rel=1e-6)
    assert min(spy.norms) > 1e-2
    assert callback.clipper.steps == 2


def test_one_clip_per_optimizer_step_with_accumulation(tmp_path):
    # 5 batches in an epoch: accumulated as 2 + 2 + 1, in two epochs.
    trainer, callback = attached(tmp_path, samples=20, gradient_accumulation_steps=2, steps=-1, num_train_epochs=2)
    trainer.train()
    assert trainer.state.global_step == 6
    assert callback.clipper.steps == 6
    assert {layer.steps for layer in callback.clipper.report()} == {6}


def test_resumed_run_is_the_same_run(tmp_path):
    """From a copied directory, which only the argument of train() tells."""
    whole, callback = attached(tmp_path / "out", save_strategy="steps", save_steps=3)
    whole.train()
    shutil.copytree(tmp_path / "out" / "checkpoint-3", tmp_path / "moved")
    shutil.rmtree(tmp_path / "out")

    resumed, its_callback = attached(tmp_path / "new")
    resumed.train(resume_from_checkpoint=str(tmp_path / "moved"))
    assert torch.equal(weights(resumed), weights(whole))
    assert its_callback.clipper.state_dict() == callback.clipper.state_dict()
    assert logged(resumed, "spectralclip/norm_after") == logged(whole, "spectralclip/norm_after")

    (tmp_path / "moved" / STATE_FILE).unlink()
    forgetful, _ = attached(tmp_path / "new")
    with pytest.warns(UserWarning, match="start anew"):
        forgetful.train(resume_from_checkpoint=str(tmp_path / "moved"))
    assert not torch.equal(weights(forgetful), weights(whole))  # so the state did matter


def test_callback_alone_resumes_from_the_output_directory(tmp_path):
    def make(**more):
        callback = SpectralClipCallback(threshold=THRESHOLD)
        return make_trainer(tmp_path, callbacks=[callback], max_grad_norm=0, **more), callback

    whole, callback = make(save_strategy="steps", save_steps=3)
    whole.train()
    shutil.rmtree(tmp_path / "checkpoint-6")
    resumed, its_callback = make()
    resumed.train(resume_from_checkpoint=True)
    assert torch.equal(weights(resumed), weights(whole))
    assert its_callback.clipper.state_dict() == callback.clipper.state_dict()


def test_callback_alone_clips_the_same(tmp_path):
    trainer, _ = attached(tmp_path)
    trainer.train()
    spy = Spy()
    alone = make_trainer(tmp_path, callbacks=[SpectralClipCallback(threshold=THRESHOLD), spy], max_grad_norm=0)
    alone.train()
    assert torch.equal(weights(alone), weights(trainer))
    assert max(logged(alone, "spectralclip/layers_clipped")) > 0
    assert logged(alone, "grad_norm") == pytest.approx(logged(alone, "spectralclip/total_norm"), rel=1e-5)
    assert logged(alone, "spectralclip/norm_after") == pytest.approx(spy.norms, rel=1e-5)


def test_callback_alone_refuses_to_come_after_a_norm_clip(tmp_path):
    trainer = make_trainer(tmp_path, callbacks=[SpectralClipCallback(threshold=1.0)], max_grad_norm=1.0)
    with pytest.raises(ValueError, match="max_grad_norm=0"):
        trainer.train()


def test_one_nan_does_not_spread(tmp_path):
    class Poison(Trainer):
        def training_step(self, model, *args, **kwargs):
            loss = super().training_step(model, *args, **kwargs)
            model.transformer.h[0].mlp.c_fc.bias.grad[0] = math.nan
            return loss

    class Finite(TrainerCallback):
        def on_pre_optimizer_step(self, args, state, control, model=None, **kwargs):
            self.names = [n for n, p in model.named_parameters() if not p.grad.isfinite().all()]

    trainer = make_trainer(tmp_path, steps=1)
    trainer.__class__ = Poison
    callback, finite = attach(trainer, threshold=1.0), Finite()
    trainer.add_callback(finite)
    trainer.train()
    assert finite.names == callback.report.not_finite == ["transformer.h.0.mlp.c_fc.bias"]
    assert math.isnan(logged(trainer, "grad_norm")[0])
    assert logged(trainer, "spectralclip/layers_not_finite") == [1]


def test_metrics_reach_loggers_that_were_there_before(tmp_path):
    class Logger(TrainerCallback):
        def __init__(self):
            self.seen = []

        def on_log(self, args, state, control, logs=None, **kwargs):
            self.seen.append(dict(logs))

    logger = Logger()
    log = functools.partial(metrics, prefix="clip/", layers="*.c_fc.weight", fields=["sigma_max"])
    trainer, _ = attached(tmp_path, callbacks=[logger], steps=2, log=log)
    trainer.train()
    *steps, summary = logger.seen
    assert len(steps) == 2
    for entry in steps:
        per_layer = [name for name in entry if name.startswith("clip/transformer")]
        assert per_layer == ["clip/transformer.h.0.mlp.c_fc.weight/sigma_max"]
        assert entry["clip/total_norm"] == entry["grad_norm"]
    assert "train_runtime" in summary and not any(name.startswith("clip/") for name in summary)


def test_model_init_makes_a_new_clipper(tmp_path):
    def fresh():
        return make_model()

    trainer = make_trainer(tmp_path, model=fresh, steps=2)
    callback = attach(trainer, threshold=THRESHOLD)
    trainer.train()
    first = callback.clipper
    trainer.train()
    assert callback.clipper is not first and callback.clipper.steps == 2

    stale = make_trainer(tmp_path, model=fresh, steps=2)
    attach(stale, spectralclip.SpectralClipper(stale.model))
    with pytest.raises(ValueError, match="another model"):
        stale.train()


def test_a_ready_clipper_is_used(tmp_path):
    trainer = make_trainer(tmp_path, steps=2)
    clipper = spectralclip.SpectralClipper(trainer.model, threshold=THRESHOLD)
    assert attach(trainer, clipper).clipper is clipper
    trainer.train()
    assert clipper.steps == 2
    with pytest.raises(TypeError, match="not both"):
        attach(trainer, clipper, threshold=1.0)


def test_flat_shards_are_refused(tmp_path, monkeypatch):
    trainer, _ = attached(tmp_path)
    for kind in (AcceleratorState, PartialState):
        monkeypatch.setitem(kind._shared_state, "distributed_type", DistributedType.FSDP)
    with pytest.raises(RuntimeError, match="fsdp_version=2"):
        trainer.callback_handler.on_train_begin(trainer.args, trainer.state, trainer.control)


# --- twice, torn, taken away ----------------------------------------------------------------------------------------


def test_a_second_attach_is_refused_until_the_first_is_detached(tmp_path):
    trainer, callback = attached(tmp_path, steps=2)
    with pytest.raises(ValueError, match=r"would clip twice: detach\(trainer\) first"):
        attach(trainer, threshold=1.0)
    trainer.train()
    assert callback.clipper.steps == 2 and {layer.steps for layer in callback.clipper.report()} == {2}

    detach(trainer)
    plain = make_trainer(tmp_path, steps=2)
    plain.train()
    again = make_trainer(tmp_path, steps=2)
    attach(again, threshold=1e-9)
    detach(again)
    again.train()
    assert torch.equal(weights(plain), weights(again))
    assert not logged(again, "spectralclip/total_norm")
    attach(again, threshold=THRESHOLD)
    again.train()
    assert logged(again, "spectralclip/total_norm")


def test_two_callbacks_are_refused(tmp_path):
    two = [SpectralClipCallback(threshold=THRESHOLD), SpectralClipCallback(threshold=THRESHOLD)]
    with pytest.raises(ValueError, match="two SpectralClipCallbacks would clip twice"):
        make_trainer(tmp_path, callbacks=two, max_grad_norm=0).train()
    one = SpectralClipCallback(threshold=THRESHOLD)
    trainer = make_trainer(tmp_path, callbacks=[one], max_grad_norm=0)
    trainer.train()
    trainer.train()  # the same one again is fine
    with pytest.raises(ValueError, match="already"):
        attach(trainer, threshold=1.0)


@pytest.mark.parametrize("left", [0, 1, 100, 700])
def test_a_torn_state_names_the_file_and_what_to_do(tmp_path, left):
    whole, _ = attached(tmp_path / "out", save_strategy="steps", save_steps=3)
    whole.train()
    path = tmp_path / "out" / "checkpoint-3" / STATE_FILE
    assert path.stat().st_size > 1000
    path.write_bytes(path.read_bytes()[:left])
    resumed, _ = attached(tmp_path / "out")
    with pytest.raises(
        ValueError, match=rf"{STATE_FILE} \({left} bytes\) cannot be read: .*earlier checkpoint, or delete"
    ):
        resumed.train(resume_from_checkpoint=str(path.parent))
    torch.save({"something": "else"}, path)
    with pytest.raises(ValueError, match=rf"{STATE_FILE}.*it has keys something"):
        resumed.train(resume_from_checkpoint=str(path.parent))
    torch.save(spectralclip.SpectralClipper(torch.nn.Linear(2, 2)).state_dict(), path)
    with pytest.raises(ValueError, match=rf"{STATE_FILE}: .*another model"):
        resumed.train(resume_from_checkpoint=str(path.parent))
