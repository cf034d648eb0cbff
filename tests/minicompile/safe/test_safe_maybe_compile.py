"""What `maybe_compile` promises: the same object, the same numbers, or the untouched model and the reason."""

import copy
import gc
import logging
import pickle
import threading
import weakref

import pytest
import torch
from safe_models import (
    FAST,
    MLP,
    InPlaceBuffer,
    build,
    failing,
    failing_backward,
    features,
    fingerprint,
    ids,
    lying,
    lying_backward,
    minigpt,
)
from torch import nn

from minicompile import CompileConfig, compile_report, maybe_compile, uncompile
from minicompile.safe.failures import WrongNumbers
from minicompile.safe.smoketest.steps import Subject
from minilab import LabError

pytestmark = pytest.mark.usefixtures("fresh_compiler")
logger = logging.getLogger("safe")


def config(**fields) -> CompileConfig:
    return CompileConfig(**{"enabled": True, "backend": "aot_eager", **fields})


def trained(model: nn.Module, batch):
    """The model with gradients on it and an optimizer that has state."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    for _ in range(2):
        optimizer.zero_grad()
        model(batch).square().mean().backward()
        optimizer.step()
    return optimizer


def test_disabled_gives_the_very_object_back_and_looks_at_nothing():
    anything = object()
    assert maybe_compile(anything, CompileConfig(), logger, "no batch") is anything


def test_compiled_model_is_the_same_object_with_the_same_keys_and_numbers():
    model, batch = build("minigpt")
    keys, expected = list(model.state_dict()), model(batch)
    compiled = maybe_compile(model, config(backend="inductor", options=FAST), logger, batch)
    assert compile_report(compiled).compiled
    assert isinstance(compiled, type(model))
    assert list(compiled.state_dict()) == keys
    torch.testing.assert_close(compiled(batch), expected)


def test_success_logs_one_info_line_with_the_settings(caplog):
    caplog.set_level(logging.INFO)
    maybe_compile(MLP(), config(dynamic=False), logger, features())
    (record,) = [record for record in caplog.records if record.name == "safe"]
    message = record.getMessage()
    assert record.levelno == logging.INFO
    for part in ("backend=aot_eager", "mode=default", "dynamic=False", "fullgraph=False", "seconds="):
        assert part in message
    assert record.compile_report["compiled"] is True


@pytest.mark.parametrize(
    ("backend", "stage", "exception"),
    [
        (failing, "forward", "BackendCompilerFailed"),
        (failing_backward, "backward", None),
        (lying, "numerics", "WrongNumbers"),
        (lying_backward, "numerics", "WrongNumbers"),
        ("no_such_backend", "compile", "InvalidBackend"),
    ],
)
def test_failure_gives_back_the_original_bit_for_bit_and_is_reported(backend, stage, exception, caplog):
    model, batch = InPlaceBuffer(), features()
    model.linear.bias.requires_grad_(False)
    model.register_forward_hook(lambda *_: None)
    optimizer = trained(model, batch)
    before = fingerprint(model, optimizer)
    result = maybe_compile(model, config(backend=backend), logger, batch, optimizer=optimizer)
    assert result is model
    assert fingerprint(model, optimizer) == before
    report = compile_report(model)
    assert (report.compiled, report.stage) == (False, stage)
    assert exception is None or report.exception == exception
    assert "Traceback" in report.stack
    assert report.seconds > 0
    (record,) = [record for record in caplog.records if record.levelno == logging.ERROR]
    for part in ("stage=", "exception=", "seconds=", "Traceback"):
        assert part in record.getMessage()


def test_success_leaves_no_trace_of_the_smoketest_either():
    for name in ("dropout", "batch_norm", "in_place_buffer"):
        model, batch = build(name)
        optimizer = trained(model, batch)
        before = fingerprint(model, optimizer)
        maybe_compile(model, config(), logger, batch, optimizer=optimizer)
        assert compile_report(model).compiled, name
        uncompile(model)
        assert fingerprint(model, optimizer) == before, name


def test_raise_policy_raises_the_compiler_s_own_exception_and_leaves_the_model():
    model = MLP()
    before = fingerprint(model)
    with pytest.raises(torch._dynamo.exc.BackendCompilerFailed, match="compiles nothing") as caught:
        maybe_compile(model, config(backend=failing, fail_policy="raise"), logger, features())
    assert "stage 'forward'" in caught.value.__notes__[0]
    assert fingerprint(model) == before
    with pytest.raises(WrongNumbers, match="the compiled model is wrong"):
        maybe_compile(model, config(backend=lying, fail_policy="raise"), logger, features())


def test_pickles_and_deep_copies_are_plain_eager_models():
    model, batch = build("mlp")
    maybe_compile(model, config(), logger, batch)
    for copied in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        assert copied._compiled_call_impl is None
        assert compile_report(copied).stage == "none"
        torch.testing.assert_close(copied(batch), model(batch))
        copied.layers[0].weight.data.zero_()
        assert model.layers[0].weight.any()  # the copy has weights of its own


def test_train_eval_and_to_work_on_the_compiled_model():
    model, batch = build("dropout")
    maybe_compile(model, config(), logger, batch)
    model.eval()
    torch.testing.assert_close(model(batch), model(batch))
    model.train()
    assert not torch.equal(model(batch), model(batch))
    model.to(torch.float64)
    assert model(batch.double()).dtype == torch.float64
    assert compile_report(model).compiled


def test_training_the_compiled_model_follows_eager_s_losses():
    losses = []
    for enabled in (False, True):
        model, batch = build("dropout")
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
        model = maybe_compile(
            model, config(enabled=enabled, backend="inductor", options=FAST), logger, batch, optimizer=optimizer
        )
        torch.manual_seed(1)
        run = []
        for _ in range(5):
            loss = model(batch).square().mean()
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            run.append(loss.item())
        losses.append(run)
    assert losses[1] == pytest.approx(losses[0], rel=1e-4)
    assert len(set(losses[0])) == 5


def test_without_a_batch_a_compile_that_fails_at_the_first_call_runs_eager(caplog):
    model, batch = build("mlp")
    expected = model(batch)
    maybe_compile(model, config(backend=failing), logger)
    assert compile_report(model).stage == "unchecked"
    torch.testing.assert_close(model(batch), expected, rtol=0, atol=0)
    report = compile_report(model)
    assert (report.compiled, report.stage) == (False, "call")
    assert "_compiled_call_impl" not in vars(model)


def test_a_recompile_that_fails_later_falls_back_and_a_bad_input_does_not():
    calls = []

    def once(graph_module, example_inputs):
        calls.append(1)
        if len(calls) > 1:
            raise NotImplementedError("once is enough")
        return graph_module

    model, batch = build("mlp")
    maybe_compile(model, config(backend=once), logger, batch)
    model(batch)  # the smoketest's compile was in another process
    with pytest.raises(RuntimeError, match="shapes cannot be multiplied"):
        model(torch.ones(2, 5))
    assert compile_report(model).compiled
    assert model(torch.ones(3, 8)).shape == (3, 4)
    assert not compile_report(model).compiled


def test_a_model_that_fails_by_itself_is_said_to():
    class Broken(nn.Linear):
        def forward(self, x):
            raise ValueError("broken in eager too")

    model = maybe_compile(Broken(8, 4), config(), logger, features())
    report = compile_report(model)
    assert (report.stage, report.reason) == ("eager", "ValueError: broken in eager too")


@pytest.mark.parametrize("make", [lambda: nn.Linear(8, 4), lambda: nn.Sequential(nn.Linear(8, 4), nn.ReLU())])
def test_modules_of_torch_s_own_are_compiled_too(make):
    model = maybe_compile(make(), config(), logger, features())
    assert (compile_report(model).compiled, compile_report(model).graphs) == (True, 1)
    model = maybe_compile(make(), config(backend=lying), logger, features())
    assert compile_report(model).stage == "numerics"


def test_a_model_of_which_nothing_is_compiled_is_said_to_be_eager():
    class Hidden(nn.Linear):
        @torch.compiler.disable
        def forward(self, x):
            return super().forward(x)

    report = compile_report(maybe_compile(Hidden(8, 4), config(), logger, features()))
    assert (report.compiled, report.exception) == (False, "NothingCompiled")


def test_a_torch_compile_wrapper_is_refused():
    with pytest.raises(LabError, match="is wrapped by torch"):
        maybe_compile(torch.compile(MLP()), config(), logger)


def test_compiling_again_replaces_the_first():
    model, batch = build("mlp")
    maybe_compile(model, config(backend="eager"), logger, batch)
    maybe_compile(model, config(), logger, batch)
    assert compile_report(model).backend == "aot_eager"
    uncompile(model)
    assert "_compiled_call_impl" not in vars(model)
    assert compile_report(model).stage == "none"


def test_bookkeeping_keeps_no_model_alive():
    model = MLP()
    maybe_compile(model, config(backend="eager"), logger, features())
    reference = weakref.ref(model)
    del model
    torch.compiler.reset()
    gc.collect()
    assert reference() is None


def test_interrupt_passes_and_leaves_the_model():
    def interrupted(graph_module, example_inputs):
        raise KeyboardInterrupt

    model = MLP()
    before = fingerprint(model)
    with pytest.raises(KeyboardInterrupt):
        maybe_compile(model, config(backend=interrupted), logger, features())
    assert fingerprint(model) == before


def test_eval_without_loss_only_calls_the_model():
    model = minigpt().eval()
    with torch.no_grad():
        maybe_compile(model, config(), logger, ids())
        report = compile_report(model)
        assert report.compiled
        assert "gradient" not in report.differences
        model(ids())
    assert not compile_report(model).recompiles


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        ({"model": lambda x: x}, "model of maybe_compile is of type function; give an nn.Module"),
        ({"model": None}, "model of maybe_compile is of type NoneType"),
        ({"model": MLP}, "model of maybe_compile is the class MLP"),
        ({"cfg": {"enabled": True}}, "cfg of maybe_compile is of type dict; give a CompileConfig"),
        ({"cfg": None}, "cfg of maybe_compile is of type NoneType"),
        ({"logger": None}, "logger of maybe_compile is of type NoneType; give a logging.Logger"),
        ({"logger": "training"}, "logger of maybe_compile is of type str"),
        ({"loss_fn": "mse"}, "loss_fn of maybe_compile is of type str"),
        ({"loss_fn": nn.MSELoss}, "loss_fn of maybe_compile is the class MSELoss; give None or a function"),
        ({"optimizer": torch.optim.SGD}, "optimizer of maybe_compile is the class SGD"),
        ({"optimizer": [torch.optim.SGD(MLP().parameters())]}, "optimizer of maybe_compile is of type list"),
        (
            {"optimizer": torch.optim.lr_scheduler.StepLR(torch.optim.SGD(MLP().parameters()), 1)},
            "optimizer of maybe_compile is of type StepLR",
        ),
    ],
)
@pytest.mark.parametrize("fail_policy", ["fallback_eager", "raise"])
def test_an_argument_of_the_wrong_kind_is_refused_in_one_sentence(wrong, sentence, fail_policy):
    given = {"model": MLP(), "cfg": config(fail_policy=fail_policy), "logger": logger, "sample_batch": features()}
    with pytest.raises(LabError) as refused:
        maybe_compile(**{**given, **wrong})
    assert str(refused.value).startswith(sentence)
    assert "\n" not in str(refused.value)


def test_models_that_call_themselves_equal_are_kept_apart():
    class Equal(MLP):
        def __eq__(self, other):
            return True

        def __hash__(self):
            return 1

    one, other = Equal(), Equal()
    maybe_compile(one, config(backend="eager"), logger, features())
    assert compile_report(other).stage == "none"
    maybe_compile(other, config(backend="eager"), logger, features())
    uncompile(other)
    assert compile_report(one).compiled
    uncompile(one)
    assert "_compiled_call_impl" not in vars(one)


def test_threads_that_compile_one_model_at_once_leave_it_whole():
    model, batch = build("mlp")
    threads = [
        threading.Thread(target=maybe_compile, args=(model, config(backend="eager"), logger, batch)) for _ in range(3)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert compile_report(model).compiled, compile_report(model).reason
    uncompile(model)
    assert "_compiled_call_impl" not in vars(model)


@pytest.mark.parametrize("ask", [compile_report, uncompile])
@pytest.mark.parametrize("value", [None, 3, MLP, "model"])
def test_what_is_no_model_has_no_report(ask, value):
    with pytest.raises(LabError, match=r"give the nn\.Module that maybe_compile was given"):
        ask(value)


def test_an_optimizer_with_a_length_of_zero_is_the_optimizer():
    class Listed(torch.optim.SGD):
        def __len__(self):
            return 0

    model = MLP()
    optimizer = Listed(model.parameters(), lr=0.1)
    assert Subject(model, features(), optimizer, None).optimizer is optimizer


def test_a_process_that_compiles_nothing_is_said_to():
    with torch.compiler.set_stance("force_eager"):
        model = maybe_compile(MLP(), config(), logger, features())
    assert compile_report(model).exception == "NothingCompiled"
