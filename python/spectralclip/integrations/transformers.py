# SPDX-License-Identifier: Apache-2.0
"""Hugging Face Trainer.

:func:`attach` puts spectral clipping in the place of the Trainer's own, on any Trainer instance::

    trainer = Trainer(model=model, args=args, train_dataset=data)
    attach(trainer, threshold=spectralclip.Ema(0.95))
    trainer.train()

Trainer clips through ``accelerator.clip_grad_norm_`` and logs what that returns as ``grad_norm``; this is the one
public place that clips, so it is the one replaced.  :class:`SpectralClipCallback` alone also works, in the list of
callbacks with ``max_grad_norm=0``, and lacks only what a callback cannot know (see there).
"""

from __future__ import annotations

import functools
import os
import pathlib
import warnings
from typing import Any, Optional, Union

import torch

from .. import _state
from ..clipper import SpectralClipper
from ..reports import StepReport
from .logging import Log, metrics

try:
    from transformers import Trainer, TrainerCallback, TrainerControl, TrainerState, TrainingArguments
    from transformers.trainer_utils import PREFIX_CHECKPOINT_DIR
except ImportError as error:
    raise ImportError(
        "spectralclip.integrations.transformers needs Hugging Face transformers, which is not installed: "
        'pip install "transformers[torch]"'
    ) from error

from accelerate.state import AcceleratorState

from .accelerate import clip_gradients, require_true_gradients

__all__ = ["STATE_FILE", "SpectralClipCallback", "attach", "detach"]

STATE_FILE = "spectralclip.pt"
"""Name of the clipper's state inside a checkpoint directory."""


class SpectralClipCallback(TrainerCallback):
    """Clips once per optimizer step, keeps the clipper's state in the checkpoints and adds its metrics to the logs.

    Give a ready ``clipper``, or the options of :class:`SpectralClipper`, which is then built from the Trainer's model
    when training starts (the only way with ``model_init``).  ``log`` turns a report into the numbers to log; choose
    others with ``functools.partial(metrics, fields=...)`` or none with None.

    Used alone it needs ``TrainingArguments(max_grad_norm=0)``, or the gradients would be clipped by norm before.  It
    is told neither the directory a run resumes from, and looks in ``output_dir``, nor is it asked before the loggers
    that Trainer itself set up: its metrics are in ``state.log_history`` and on the console, not in wandb.  And Trainer
    measures ``grad_norm`` by a clip at infinity, which turns all gradients into NaN if one is not finite.
    :func:`attach` has none of these limits.
    """

    def __init__(
        self, clipper: Optional[SpectralClipper] = None, *, log: Optional[Log] = metrics, **options: Any
    ) -> None:
        if clipper is not None and options:
            raise TypeError(f"give a clipper or options for one, not both: {sorted(options)}")
        SpectralClipper.check_options(options)
        self.clipper = clipper
        self.report: Optional[StepReport] = None
        self._is_given = clipper is not None
        self._options = options
        self._log = log
        self._trainer: Optional[Trainer] = None  # set by attach()
        self._checkpoint: Optional[pathlib.Path] = None  # directory given to train(), known to attach() only
        self._clipped = False  # since the last optimizer step

    # Training

    def on_train_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, model: Any = None, **kwargs: Any
    ) -> None:
        accelerator_state = AcceleratorState()
        is_fsdp2 = getattr(accelerator_state, "fsdp_plugin", None) is not None and accelerator_state.is_fsdp2
        require_true_gradients(accelerator_state.distributed_type, is_fsdp2)
        _claim(state, self)
        if self._trainer is not None:
            self._trainer.accelerator.clip_grad_norm_ = self._clip_grad_norm_
        elif args.max_grad_norm:
            raise ValueError(
                f"max_grad_norm = {args.max_grad_norm} clips by norm before SpectralClipCallback does. Set "
                "TrainingArguments(max_grad_norm=0), or use spectralclip.integrations.transformers.attach(trainer)."
            )
        self._clipped = False
        self._take(model)
        if state.global_step > 0:
            self._restore(self._checkpoint or _checkpoint_directory(args, state))

    def on_pre_optimizer_step(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        if not self._clipped:
            if self._trainer is not None:
                self._clip_grad_norm_()
            else:
                self.report = self._ready().step()  # Trainer has just unscaled, in order to measure grad_norm.
        self._clipped = False

    def _clip_grad_norm_(self, parameters: Any = None, max_norm: Any = None, norm_type: Any = 2) -> torch.Tensor:
        """In the place of ``Accelerator.clip_grad_norm_``; returns the norm before clipping as that does."""
        assert self._trainer is not None  # attach() has put this method there
        report = clip_gradients(self._trainer.accelerator, self._ready())
        if report is None:
            raise RuntimeError("asked to clip while gradients are still being accumulated")
        self.report = report
        self._clipped = True
        return report.total_norm

    def _ready(self) -> SpectralClipper:
        if self.clipper is None:
            raise RuntimeError("the clipper is built when training starts, and it has not started")
        return self.clipper

    def _take(self, model: torch.nn.Module) -> None:
        """The clipper of the model that is about to be trained; with ``model_init`` it is a new one each time."""
        trained = {id(p) for p in model.parameters()}
        known = self.clipper is not None and any(id(p) in trained for p in self.clipper.parameters)
        if known:
            return
        if self._is_given:
            raise ValueError(
                "the clipper was built from another model than the Trainer trains. Give the options of the clipper "
                "instead of a clipper, and it is built when training starts."
            )
        self.clipper = SpectralClipper(model, **self._options)

    # Checkpoints

    def on_save(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        if not args.should_save or args.save_only_model:
            return
        directory = _checkpoint_directory(args, state)
        if state.is_hyper_param_search and not directory.is_dir():
            return  # A trial writes to a directory that only Trainer knows, and is not resumed.
        draft = directory / f"{STATE_FILE}.draft"
        torch.save(self._ready().state_dict(), draft)
        os.replace(draft, directory / STATE_FILE)

    def _restore(self, directory: pathlib.Path) -> None:
        path = directory / STATE_FILE
        if not path.is_file():
            warnings.warn(f"no {STATE_FILE} in {directory}: thresholds of spectral clipping start anew", stacklevel=2)
            return
        state = _state.read_file(path)
        try:
            self._ready().load_state_dict(state)
        except (ValueError, RuntimeError) as error:
            raise ValueError(f"{path}: {error}") from error

    # Logs

    def on_log(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        logs: Optional[dict[str, float]] = None,
        **kwargs: Any,
    ) -> None:
        if self._trainer is None and logs is not None:
            own = self._metrics(logs)
            logs.update(own)
            state.log_history[-1].update(own)

    def _metrics(self, logs: dict[str, float]) -> dict[str, float]:
        """Belongs to the logs of training steps; those of evaluation and the last summary have no "loss"."""
        if self._log is None or self.report is None or "loss" not in logs:
            return {}
        return self._log(self.report)


def attach(
    trainer: Trainer, clipper: Optional[SpectralClipper] = None, *, log: Optional[Log] = metrics, **options: Any
) -> SpectralClipCallback:
    """Replaces the clipping of ``trainer`` by spectral clipping; ``args.max_grad_norm`` no longer matters.

    ``grad_norm`` is still logged and is the norm before clipping; the metrics of :func:`metrics` reach every logger.
    The state is saved in each checkpoint and restored by ``trainer.train(resume_from_checkpoint=...)``.  Arguments as
    in :class:`SpectralClipCallback`, which is returned: ``.clipper`` and ``.report`` are there to look at.

    A trainer clips once: what has spectral clipping already is refused until :func:`detach` takes it away.
    """
    callback = SpectralClipCallback(clipper, log=log, **options)
    if _callbacks_of(trainer):
        raise ValueError(
            "this trainer has spectral clipping already, and would clip twice: detach(trainer) first, or change the "
            "options where it was attached"
        )
    callback._trainer = trainer
    trainer.add_callback(callback)
    original_train, original_log = trainer.train, trainer.log

    @functools.wraps(original_train)
    def train(resume_from_checkpoint: Union[str, bool, None] = None, *args: Any, **kwargs: Any) -> Any:
        is_path = isinstance(resume_from_checkpoint, (str, os.PathLike))
        callback._checkpoint = pathlib.Path(str(resume_from_checkpoint)) if is_path else None
        return original_train(resume_from_checkpoint, *args, **kwargs)

    @functools.wraps(original_log)
    def log_with_metrics(logs: dict[str, float], *args: Any, **kwargs: Any) -> None:
        original_log({**logs, **callback._metrics(logs)}, *args, **kwargs)

    trainer.train, trainer.log = train, log_with_metrics  # type: ignore[method-assign]
    return callback


def detach(trainer: Trainer) -> None:
    """Takes spectral clipping away again, attached or as a callback; the trainer's own clipping is back."""
    for callback in _callbacks_of(trainer):
        trainer.remove_callback(callback)
        if callback._trainer is not None:
            for owner, name in ((trainer, "train"), (trainer, "log"), (trainer.accelerator, "clip_grad_norm_")):
                vars(owner).pop(name, None)


def _claim(state: TrainerState, callback: SpectralClipCallback) -> None:
    """A callback is not told of the others: the first leaves its mark on the state, which each train() makes anew."""
    if vars(state).setdefault("_spectralclip", callback) is not callback:
        raise ValueError("two SpectralClipCallbacks would clip twice: give the Trainer one")


def _callbacks_of(trainer: Trainer) -> list[SpectralClipCallback]:
    return [c for c in trainer.callback_handler.callbacks if isinstance(c, SpectralClipCallback)]


def _checkpoint_directory(args: TrainingArguments, state: TrainerState) -> pathlib.Path:
    return pathlib.Path(str(args.output_dir)) / f"{PREFIX_CHECKPOINT_DIR}-{state.global_step}"
