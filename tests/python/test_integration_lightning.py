# SPDX-License-Identifier: Apache-2.0
"""Lightning: unscaled gradients, once per optimizer step, logged, and resumed bit for bit."""

import functools

import pytest
import torch

pytest.importorskip("lightning", reason="needs lightning")
import lightning.pytorch as pl
from lightning.pytorch.plugins.precision import MixedPrecision

import spectralclip
from spectralclip.integrations import metrics
from spectralclip.integrations.lightning import SpectralClipCallback, clip_gradients

pytestmark = [
    pytest.mark.filterwarnings("ignore::UserWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning"),
]
THRESHOLD = spectralclip.Ema(0.9, slack=0.8)


class Model(pl.LightningModule):
    def __init__(self, fused=False):
        super().__init__()
        torch.manual_seed(0)
        self.layers = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.Tanh(), torch.nn.Linear(16, 4))
        self.fused = fused
        self.seen = []  # sigma_max of the first layer as the optimizer sees it

    def training_step(self, batch, batch_idx):
        return torch.nn.functional.mse_loss(self.layers(batch[0]).float(), batch[1])

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=1e-2, fused=self.fused)

    def optimizer_step(self, epoch, batch_idx, optimizer, optimizer_closure):
        super().optimizer_step(epoch, batch_idx, optimizer, optimizer_closure)
        self.seen.append(torch.linalg.matrix_norm(self.layers[0].weight.grad, 2).item())


def loader(batches=6):
    generator = torch.Generator().manual_seed(1)
    pairs = [(torch.randn(8, generator=generator), torch.randn(4, generator=generator)) for _ in range(6 * batches)]
    return torch.utils.data.DataLoader(pairs, batch_size=6)


def make_trainer(*callbacks, epochs=1, **options):
    chosen = {
        "logger": False, "enable_checkpointing": False, "enable_progress_bar": False, "enable_model_summary": False,
        "log_every_n_steps": 1, **options,
    }  # fmt: skip
    return pl.Trainer(accelerator="cpu", devices=1, max_epochs=epochs, callbacks=list(callbacks), **chosen)


def weights(model):
    return torch.nn.utils.parameters_to_vector(model.parameters()).detach()


def test_clips_and_logs():
    plain = Model()
    make_trainer().fit(plain, loader(1))
    tau = plain.seen[0] / 5
    model, clip = Model(), SpectralClipCallback(threshold=tau)
    trainer = make_trainer(clip)
    trainer.fit(model, loader(1))
    assert model.seen == pytest.approx([tau], rel=1e-4)
    assert trainer.logged_metrics["spectralclip/total_norm"] == pytest.approx(float(clip.report.total_norm), rel=1e-6)
    assert trainer.logged_metrics["spectralclip/norm_after"] < trainer.logged_metrics["spectralclip/total_norm"]
    assert trainer.logged_metrics["spectralclip/layers_clipped"] > 0


@pytest.mark.parametrize(("accumulate", "steps"), [(1, 7), (3, 3)])
def test_one_clip_per_optimizer_step(accumulate, steps):
    clip = SpectralClipCallback(threshold=THRESHOLD)
    trainer = make_trainer(clip, accumulate_grad_batches=accumulate)
    trainer.fit(Model(), loader(7))
    assert trainer.global_step == clip.clipper.steps == steps


def test_logs_on_the_steps_of_the_trainer_only():
    asked = []

    def log(report):
        asked.append(report.step)
        return metrics(report, prefix="clip/", layers="layers.0.*", fields=["tau"])

    trainer = make_trainer(SpectralClipCallback(threshold=1.0, log=log), log_every_n_steps=3)
    trainer.fit(Model(), loader(7))
    assert asked == [3, 6]
    make_trainer(SpectralClipCallback(threshold=1.0, log=None)).fit(Model(), loader(1))


@pytest.mark.parametrize("given", ["options", "clipper"])
def test_resumed_run_is_the_same_run(tmp_path, given):
    def make(epochs):
        model = Model()
        ready = {"clipper": spectralclip.SpectralClipper(model, threshold=THRESHOLD)}
        clip = SpectralClipCallback(**(ready if given == "clipper" else {"threshold": THRESHOLD}))
        return model, clip, make_trainer(clip, epochs=epochs)

    whole, clip, trainer = make(2)
    trainer.fit(whole, loader())
    half, _, trainer = make(1)
    trainer.fit(half, loader())
    trainer.save_checkpoint(tmp_path / "half.ckpt")
    resumed, its_clip, trainer = make(2)
    trainer.fit(resumed, loader(), ckpt_path=tmp_path / "half.ckpt")
    assert torch.equal(weights(resumed), weights(whole))
    assert its_clip.clipper.steps == 12
    assert its_clip.clipper.state_dict() == clip.clipper.state_dict()

    # The checkpoint is plain enough for weights_only, and without the state the run is another one.
    checkpoint = torch.load(tmp_path / "half.ckpt", weights_only=True)
    del checkpoint["callbacks"]["SpectralClipCallback"]
    torch.save(checkpoint, tmp_path / "forgetful.ckpt")
    forgetful, _, trainer = make(2)
    with pytest.warns(
        UserWarning, match="no state of SpectralClipCallback: thresholds of spectral clipping start anew"
    ):
        trainer.fit(forgetful, loader(), ckpt_path=tmp_path / "forgetful.ckpt")
    assert not torch.equal(weights(forgetful), weights(whole))


def test_gradients_are_unscaled_first():
    """autocast is off in effect (float32), so that only the scale differs."""

    class ScaledFloat32(MixedPrecision):
        def autocast_context_manager(self):
            return torch.autocast("cpu", enabled=False)

    def fit(*plugins):
        model, clip = Model(), SpectralClipCallback(threshold=THRESHOLD)
        make_trainer(clip, plugins=list(plugins)).fit(model, loader())
        return weights(model), clip.clipper.state_dict()

    plain, state = fit()
    scaled, scaled_state = fit(ScaledFloat32("16-mixed", "cpu", torch.amp.GradScaler("cpu", init_scale=2.0**12)))
    assert torch.equal(plain, scaled)
    assert state == scaled_state


def test_fused_optimizer_with_a_scaler_is_refused():
    plugin = MixedPrecision("16-mixed", "cpu", torch.amp.GradScaler("cpu"))
    trainer = make_trainer(SpectralClipCallback(threshold=1.0), plugins=[plugin])
    with pytest.raises(RuntimeError, match="fused=False"):
        trainer.fit(Model(fused=True), loader(1))


def test_configure_gradient_clipping(tmp_path):
    class Own(Model):
        def __init__(self):
            super().__init__()
            self.clipper = spectralclip.SpectralClipper(self, threshold=THRESHOLD)

        def configure_gradient_clipping(self, optimizer, gradient_clip_val=None, gradient_clip_algorithm=None):
            clip_gradients(self, self.clipper, log=functools.partial(metrics, prefix="own/"))

        def on_save_checkpoint(self, checkpoint):
            checkpoint["spectralclip"] = self.clipper.state_dict()

        def on_load_checkpoint(self, checkpoint):
            self.clipper.load_state_dict(checkpoint["spectralclip"])

    own, by_callback, clip = Own(), Model(), SpectralClipCallback(threshold=THRESHOLD)
    trainer = make_trainer()
    trainer.fit(own, loader())
    make_trainer(clip).fit(by_callback, loader())
    assert torch.equal(weights(own), weights(by_callback))
    assert own.clipper.state_dict() == clip.clipper.state_dict()
    assert trainer.logged_metrics["own/total_norm"] > 0
    trainer.save_checkpoint(tmp_path / "own.ckpt")
    again = Own()
    trainer = make_trainer(epochs=2)
    trainer.fit(again, loader(), ckpt_path=tmp_path / "own.ckpt")
    assert again.clipper.steps == 12


def test_a_norm_clip_of_the_trainer_comes_after():
    model = Model()
    trainer = make_trainer(SpectralClipCallback(threshold=1e9), gradient_clip_val=1e-3)
    trainer.fit(model, loader(1))
    assert trainer.logged_metrics["spectralclip/total_norm"] > 1e-2  # seen before it
    assert model.seen[0] <= 1e-3


class TwoOptimizers(pl.LightningModule):
    """Leaves gradients of one part around while the optimizer of the other steps, as adversarial training does."""

    automatic_optimization = False

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.words = torch.nn.Embedding(4, 8)
        self.one, self.two = torch.nn.Linear(8, 8), torch.nn.Linear(8, 4)

    def training_step(self, batch, batch_idx):
        optimizers = self.optimizers()
        loss = torch.nn.functional.mse_loss(self.two(self.one(batch[0] + self.words.weight[0])), batch[1])
        self.manual_backward(loss)
        for optimizer in optimizers:
            optimizer.step()
        for optimizer in optimizers:
            optimizer.zero_grad()

    def configure_optimizers(self):
        first = [*self.words.parameters(), *self.one.parameters()]
        return torch.optim.SGD(first, lr=0.1), torch.optim.SGD(self.two.parameters(), lr=0.1)


def test_each_optimizer_has_its_own_clipper(tmp_path):
    clip = SpectralClipCallback(threshold=THRESHOLD)
    trainer = make_trainer(clip)
    trainer.fit(TwoOptimizers(), loader(5))
    assert [clipper.steps for clipper in clip.clippers] == [5, 5]
    names = [{layer.name: layer.treatment for layer in clipper.report()} for clipper in clip.clippers]
    assert names[0] == {"words.weight": "skip", "one.weight": "spectral", "one.bias": "norm"}
    assert names[1] == {"two.weight": "spectral", "two.bias": "norm"}
    assert {"spectralclip/total_norm/optimizer0", "spectralclip/total_norm/optimizer1"} <= set(trainer.logged_metrics)
    trainer.save_checkpoint(tmp_path / "two.ckpt")
    again = SpectralClipCallback(threshold=THRESHOLD)
    make_trainer(again, epochs=2).fit(TwoOptimizers(), loader(5), ckpt_path=tmp_path / "two.ckpt")
    assert [clipper.steps for clipper in again.clippers] == [10, 10]

    model = TwoOptimizers()
    with pytest.raises(ValueError, match="2 optimizers and 1 clippers"):
        make_trainer(SpectralClipCallback(spectralclip.SpectralClipper(model))).fit(model, loader(1))


def test_mistakes_are_named():
    with pytest.raises(ValueError, match="another model"):
        make_trainer(SpectralClipCallback(spectralclip.SpectralClipper(Model()))).fit(Model(), loader(1))
    with pytest.raises(TypeError, match="not both"):
        SpectralClipCallback(spectralclip.SpectralClipper(Model()), threshold=1.0)


def test_flat_shards_are_refused():
    FSDPStrategy = type("FSDPStrategy", (), {})
    trainer = type("Trainer", (), {"strategy": type("Own", (FSDPStrategy,), {})()})()
    with pytest.raises(RuntimeError, match="FSDPStrategy"):
        SpectralClipCallback(threshold=1.0).on_fit_start(trainer, Model())


def test_two_callbacks_are_refused():
    two = [SpectralClipCallback(threshold=1.0), SpectralClipCallback(threshold=1.0)]
    two[1].__class__ = type("Another", (SpectralClipCallback,), {})  # Lightning itself refuses equal ones
    with pytest.raises(ValueError, match="2 SpectralClipCallbacks would clip 2 times"):
        make_trainer(*two).fit(Model(), loader(1))


def test_a_rule_for_one_of_several_optimizers_is_no_idle_rule(recwarn):
    clip = SpectralClipCallback(threshold=THRESHOLD, rules=spectralclip.skip("two.*"))
    make_trainer(clip).fit(TwoOptimizers(), loader(1))
    assert [layer.treatment for layer in clip.clippers[1].report()] == ["skip", "skip"]
    assert not [w for w in recwarn if "decides for no parameter" in str(w.message)]
    with pytest.warns(UserWarning, match=r"'three\.\*' decides for no parameter"):
        make_trainer(SpectralClipCallback(threshold=THRESHOLD, rules=spectralclip.skip("three.*"))).fit(
            TwoOptimizers(), loader(1)
        )
