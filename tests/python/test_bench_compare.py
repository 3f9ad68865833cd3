# SPDX-License-Identifier: Apache-2.0
"""The side-by-side benchmark runs, says what it promises, and refuses a contender that is wrong."""

import importlib
import json
import pathlib
import sys

import pytest
import torch

BENCH = pathlib.Path(__file__).resolve().parents[2] / "bench"


@pytest.fixture(scope="module")
def bench():
    """The command line of bench/compare.py; its parts are the package bench/compare/."""
    sys.path.insert(0, str(BENCH))
    threads = torch.get_num_threads()
    try:
        yield importlib.import_module("compare.cli")
    finally:
        torch.set_num_threads(threads)
        sys.path.remove(str(BENCH))


@pytest.fixture(scope="module")
def quick(bench, tmp_path_factory):
    folder = tmp_path_factory.mktemp("compare")
    files = folder / "all.json", folder / "all.md"
    code = bench.main(["--quick", "--threads", "1", "--json", str(files[0]), "--markdown", str(files[1])])
    return code, json.loads(files[0].read_text(encoding="utf-8")), files[1].read_text(encoding="utf-8")


def test_quick_run_finds_nothing_wrong(quick):
    code, measured, _ = quick
    assert measured["failures"] == []
    assert code == 0


def test_json_has_machine_sets_training_and_findings(quick):
    _, measured, _ = quick
    assert set(measured) == {"machine", "options", "sets", "training", "findings", "failures"}
    assert {"cpu", "threads", "torch", "simd", "load"} <= set(measured["machine"])
    assert measured["machine"]["threads"] == 1
    assert [one["key"] for one in measured["sets"]] == ["nanogpt", "gpt2", "blocks1b"]
    assert all({"what", "value", "unit", "bar", "verdict", "note"} <= set(one) for one in measured["findings"])
    assert len(measured["findings"]) == 3 * 5 + 2


def test_json_has_every_contender_with_times_errors_and_memory(quick):
    _, measured, _ = quick
    for one in measured["sets"]:
        rows = {row["name"]: row for row in one["contenders"]}
        assert len(rows) == 10
        assert sum(row["scaled"] for row in rows.values()) == 4
        for name, row in rows.items():
            assert len(row["ms"]) == (1 if row["scaled"] else 3)
            assert min(row["ms"]) > 0 and row["median_ms"] > 0 and row["ratio"] > 0
            if name == "torch clip_grad_norm_":
                assert row["ratio"] == 1 and row["error_90"] is None
            else:
                assert 0 < row["error_median"] <= row["error_90"] < 0.05 and row["verified_clips"] > 0
        assert 0.35 <= rows["spectralclip tracked, EMA"]["clipped_share"] <= 0.55
        assert rows["spectralclip tracked, always r = 10"]["clipped_share"] == 1
        assert rows["spectralclip tracked, EMA"]["state_bytes"] > 0


def test_training_is_paired_with_no_clipping(quick):
    _, measured, _ = quick
    rows = measured["training"]["trainees"]
    assert [row["name"] for row in rows] == [
        "no clipping", "torch clip_grad_norm_", "spectralclip tracked", "spectralclip tracked, always r = 10",
        "spectralclip sketched, always r = 10", "Algorithm 2", "spectralclip gram", "full torch.linalg.svd",
        "hard cap by products", "soft clip by products",
    ]  # fmt: skip
    assert rows[0]["paired_percent"] is None and rows[1]["clip_ratio"] == 1
    assert [len(row["step_ms"]) for row in rows] == [len(row["clips_ms"]) for row in rows] == [3] * 6 + [1] * 4
    assert all(row["clip_percent"] > 0 and row["clip_ratio"] > 0 for row in rows[1:])
    assert all(row["verified_clips"] == measured["training"]["matrices"] == 8 for row in rows[2:])
    assert all(0 < row["error_90"] < 0.05 for row in rows[2:])
    assert all(row["clipped_share"] == 1 for row in rows if "always" in row["name"])


def test_markdown_has_the_tables(quick):
    _, measured, text = quick
    assert text.count("| contender |") == 4
    assert "## Findings" in text and "Every timed contender was verified." in text
    assert str(measured["machine"]["simd"]) in text


def test_reference_is_the_svd(bench):
    """References come from eigenpairs of a Gram matrix, because a large SVD takes minutes; here both are at hand."""
    from compare import reference

    for shape in ((30, 50), (50, 30)):
        G = torch.randn(shape, dtype=torch.float64)
        U, sigma, Vh = torch.linalg.svd(G, full_matrices=False)
        found = reference.make_reference(G, terms=8)
        assert torch.allclose(found.sigma, sigma[:8], rtol=1e-12)
        tau = float(sigma[4])
        clipped = (U * sigma.clamp_max(tau)) @ Vh
        assert found.distance(G, clipped, tau) <= 1e-12 * float(G.norm())
        assert found.distance(G, G, tau) == pytest.approx(float((sigma - tau).clamp_min(0).norm()))


def test_help_says_what_there_is(bench, capsys):
    with pytest.raises(SystemExit) as stop:
        bench.parse(["--help"])
    text = capsys.readouterr().out
    assert stop.value.code == 0
    assert all(f"  {section} " in text for section in bench.SECTIONS) and "--quick" in text


def _wrong_makers():
    """A correct contender spoilt in one way each, all of which still claim to have done the right thing."""
    from compare import contenders

    def spoilt(spoil):
        def make(set_):
            right = contenders.published_ema(set_)
            step = right.step
            right.step = lambda: (step(), spoil(set_))
            return right

        return make

    def restore_all(set_):  # nothing was clipped
        for layer in set_.layers:
            layer.work.copy_(layer.master[0])

    def scale_all(set_):  # norm clipping in disguise
        for layer in set_.layers:
            layer.work.mul_(0.9)

    def spoil_one(set_):
        set_.layers[0].work.fill_(float("nan"))

    return {"unclipped": spoilt(restore_all), "scaled": spoilt(scale_all), "not finite": spoilt(spoil_one)}


@pytest.mark.parametrize("how", ["unclipped", "scaled", "not finite"])
def test_wrong_contender_is_caught(bench, how):
    options = bench.set_run.SetOptions(rounds=1, dense_rounds=0, layers_per_shape=2, variants=3)
    plan = bench.gradients.QUICK_PLANS[0]
    result = bench.set_run.run_set(plan, options, makers=[_wrong_makers()[how]])
    assert result.failures
    assert all("Algorithm 2" in failure for failure in result.failures)


def test_wrong_threshold_is_caught(bench):
    from compare import contenders

    def make(set_):
        right = contenders.published_ema(set_)
        results = right.results
        right.results = lambda: [contenders.LayerResult(1.01 * one.tau, one.clipped) for one in results()]
        return right

    options = bench.set_run.SetOptions(rounds=1, dense_rounds=0, layers_per_shape=1, variants=1)
    result = bench.set_run.run_set(bench.gradients.QUICK_PLANS[0], options, makers=[make])
    assert any("tau = " in failure for failure in result.failures)


def test_wrong_dense_contender_is_caught(bench):
    from compare import dense_run, reference

    set_ = bench.gradients.LayerSet(bench.gradients.QUICK_PLANS[0])
    references = reference.make_references(set_, reference.reference_pairs(set_, 1, 1))
    inaccurate = dense_run._function(lambda G, tau: dense_run.rivals.full_svd_clip(G, 1.01 * tau))
    failures = []
    dense_run.run_dense(set_, 1, references, failures, [dense_run.DenseContender("wrong", inaccurate)])
    assert len(failures) == 4


def test_exit_code_says_wrong_not_slow(bench, monkeypatch, capsys):
    from compare import set_run

    monkeypatch.setattr(set_run, "verify_references", lambda set_, references: ["made up"])
    assert bench.main(["--quick", "--threads", "1", "--only", "nanogpt"]) == 1
    assert "FAILED: nanogpt: made up" in capsys.readouterr().out


@pytest.mark.parametrize("arguments", [["--only", "gpt3"], ["--rounds", "0"], ["--threads", "x"]])
def test_misuse_is_refused(bench, arguments, capsys):
    with pytest.raises(SystemExit) as stop:
        bench.parse(arguments)
    assert stop.value.code == 2
    assert arguments[0] in capsys.readouterr().err
