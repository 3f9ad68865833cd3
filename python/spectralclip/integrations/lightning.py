# SPDX-License-Identifier: Apache-2.0
"""Lightning.

:class:`SpectralClipCallback` does everything: clips the unscaled gradients before each optimizer step, logs, and keeps
its state in the checkpoints.  :func:`clip_gradients` is for modules that override ``configure_gradient_clipping``.
"""

from __future__ import annotations

import warnings
from typing import Any, Optional

import torch

from .._checks import warn_of_idle_rules
from .._layouts import rules_of
from ..clipper import SpectralClipper
from ..reports import StepReport
from ..rules import as_rules
from .logging import Log, metrics

try:
    import lightning.pytorch as pl
except ImportError:
    try:
        import pytorch_lightning as pl  # type: ignore[no-redef]
    except ImportError as error:
        raise ImportError(
            "spectralclip.integrations.lightning needs Lightning, which is not installed: pip install lightning"
        ) from error

__all__ = ["SpectralClipCallback", "clip_gradients"]

# By name, so that they are found in either package and need not be importable.
_HIDING_STRATEGIES = {"FSDPStrategy", "DeepSpeedStrategy", "XLAFSDPStrategy"}


class SpectralClipCallback(pl.Callback):
    """``Trainer(callbacks=[SpectralClipCallback(threshold=spectralclip.Ema(0.95))])``

    Give the options of :class:`SpectralClipper`, which is then built from the module when fitting starts, one for each
    optimizer; or, with one optimizer, a ready ``clipper``.  ``log`` turns a report into the numbers to log; choose
    others with ``functools.partial(metrics, fields=...)`` or none with None.  They are logged on the steps that the
    Trainer logs (``log_every_n_steps``).

    ``Trainer(gradient_clip_val=...)`` still works and clips by norm afterwards.
    """

    def __init__(
        self, clipper: Optional[SpectralClipper] = None, *, log: Optional[Log] = metrics, **options: Any
    ) -> None:
        if clipper is not None and options:
            raise TypeError(f"give a clipper or options for one, not both: {sorted(options)}")
        SpectralClipper.check_options(options)
        self.clippers: list[SpectralClipper] = [] if clipper is None else [clipper]
        self.report: Optional[StepReport] = None
        self._is_given = clipper is not None
        self._options = options
        self._log = log
        self._has_resumed = False  # from a checkpoint, of which on_fit_start has not heard yet
        self._loaded: Optional[list[dict[str, Any]]] = None  # states that came before there were clippers for them

    @property
    def clipper(self) -> Optional[SpectralClipper]:
        """The clipper of the first, mostly the only, optimizer."""
        return self.clippers[0] if self.clippers else None

    def on_fit_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        _require_true_gradients(trainer)
        _require_only_one(trainer)
        if not self._is_of(pl_module):
            self.clippers = self._make(trainer, pl_module)
        if len(trainer.optimizers) != len(self.clippers):
            raise ValueError(
                f"there are {len(trainer.optimizers)} optimizers and {len(self.clippers)} clippers. Give the options "
                "of the clipper instead of a clipper, and each optimizer gets its own."
            )
        if self._loaded is not None:
            if len(self._loaded) != len(self.clippers):
                raise ValueError(f"the checkpoint has {len(self._loaded)} clippers, this run {len(self.clippers)}")
            for clipper, state in zip(self.clippers, self._loaded):
                clipper.load_state_dict(state)
            self._loaded = None
        elif self._has_resumed:
            warnings.warn(
                "the checkpoint has no state of SpectralClipCallback: thresholds of spectral clipping start anew",
                stacklevel=2,
            )
        self._has_resumed = False

    def on_load_checkpoint(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, checkpoint: dict[str, Any]
    ) -> None:
        self._has_resumed = True

    def on_before_optimizer_step(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, optimizer: torch.optim.Optimizer
    ) -> None:
        number = trainer.optimizers.index(optimizer)
        _require_unscaled(trainer, optimizer)
        self.report = self.clippers[number].step()
        if self._log is not None and _is_logging_step(trainer):
            values = self._log(self.report)
            if len(self.clippers) > 1:
                values = {f"{name}/optimizer{number}": value for name, value in values.items()}
            pl_module.log_dict(values, on_step=True, on_epoch=False)

    def state_dict(self) -> dict[str, Any]:
        states = self._loaded if self._loaded is not None else [clipper.state_dict() for clipper in self.clippers]
        return {"clippers": states} if states else {}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self._loaded = state_dict["clippers"]

    def _is_of(self, pl_module: pl.LightningModule) -> bool:
        trained = {id(p) for p in pl_module.parameters()}
        found = any(id(p) in trained for clipper in self.clippers for p in clipper.parameters)
        if not found and self._is_given:
            raise ValueError("the clipper was built from another model than the Trainer fits")
        return found

    def _make(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> list[SpectralClipper]:
        if len(trainer.optimizers) == 1:
            return [SpectralClipper(pl_module, **self._options)]
        # A step of one optimizer must not clip, nor let thresholds learn from, the gradients of another.
        own_rules = as_rules(self._options.get("rules", ()))
        options = {**self._options, "rules": [*own_rules, *rules_of(pl_module)]}
        clippers = []
        for optimizer in trainer.optimizers:
            own = {id(p) for group in optimizer.param_groups for p in group["params"]}
            named = [(name, p) for name, p in pl_module.named_parameters() if id(p) in own]
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # a rule may be for the parameters of another optimizer
                clippers.append(SpectralClipper(named, **options))
        layers = [layer for clipper in clippers for layer in clipper.report()]
        warn_of_idle_rules(own_rules, layers, [name for clipper in clippers for name in clipper.names])
        return clippers


def clip_gradients(
    pl_module: pl.LightningModule, clipper: SpectralClipper, *, log: Optional[Log] = metrics
) -> StepReport:
    """Clips and logs; the body of an own ``configure_gradient_clipping``::

        def configure_gradient_clipping(self, optimizer, gradient_clip_val=None, gradient_clip_algorithm=None):
            clip_gradients(self, self.clipper)

        def on_save_checkpoint(self, checkpoint):
            checkpoint["spectralclip"] = self.clipper.state_dict()

        def on_load_checkpoint(self, checkpoint):
            self.clipper.load_state_dict(checkpoint["spectralclip"])

    Returns the report of the step.
    """
    trainer = pl_module.trainer
    _require_true_gradients(trainer)
    for optimizer in trainer.optimizers:
        _require_unscaled(trainer, optimizer)
    report = clipper.step()
    if log is not None and _is_logging_step(trainer):
        pl_module.log_dict(log(report), on_step=True, on_epoch=False)
    return report


def _is_logging_step(trainer: pl.Trainer) -> bool:
    """Whether Trainer will log this step.  Several optimizers all count in global_step, so then every step is one."""
    every: int = trainer.log_every_n_steps  # type: ignore[attr-defined]  # set by its logger connector
    return every > 0 and (len(trainer.optimizers) > 1 or (trainer.global_step + 1) % every == 0)


def _require_true_gradients(trainer: pl.Trainer) -> None:
    """Shards that know their place (FSDP2 and tensor parallelism by ModelParallelStrategy) are fine."""
    found = {kind.__name__ for kind in type(trainer.strategy).__mro__} & _HIDING_STRATEGIES
    if found:
        raise RuntimeError(
            f"spectral clipping needs the gradients in parameter.grad, and {found.pop()} cuts flattened parameters or "
            "keeps them to itself. Use a single device, DDP, or ModelParallelStrategy (FSDP2), whose shards are "
            "clipped where they lie."
        )


def _require_only_one(trainer: pl.Trainer) -> None:
    callbacks: list[pl.Callback] = trainer.callbacks  # type: ignore[attr-defined]  # set by its callback connector
    count = sum(isinstance(callback, SpectralClipCallback) for callback in callbacks)
    if count > 1:
        raise ValueError(f"{count} SpectralClipCallbacks would clip {count} times: give the Trainer one")


def _require_unscaled(trainer: pl.Trainer, optimizer: torch.optim.Optimizer) -> None:
    """Fused optimizers unscale inside their step; what one sees before is scaled."""
    if trainer.scaler is not None and getattr(optimizer, "_step_supports_amp_scaling", False):
        raise RuntimeError(
            f"{type(optimizer).__name__} unscales the gradients of mixed precision inside its step, where they can no "
            "longer be clipped. Use it with fused=False, or precision='bf16-mixed'."
        )
