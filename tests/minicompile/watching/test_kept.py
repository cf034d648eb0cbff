"""What a torch that is installed shows of a compile is what is kept of it, on which all that is concluded is tested."""

import json

import pytest
from watched_models import minor, told
from zoo_models import KEPT, NAMES, NEWEST, TARGETS, load, path_of, watched

from minicompile.watching.watched import read_watched
from minilab.config.check import check_schema, read_schema

# Of each kind of hook one: loops and reductions, a scan, several results, a change in place, a library's call, a
# template, a subgraph, symbols for sizes, a user's kernel, a backward pass, a reduction nested in another.
AGAIN = (
    "softmax", "cumulative_sum", "variance", "momentum_step", "same_convolution", "products_in_templates",
    "conditional",
    "dynamic_convolution", "rms_train", "classifier_train", "user_kernel", "scatter_rows",
    "scaled_groups",
)  # fmt: skip


@pytest.mark.parametrize("target", TARGETS)
def test_every_model_is_kept_of_the_newest_torch(target):
    wanted = {name for name in NAMES if target in load(name).targets}
    assert {path.name.partition(".")[0] for path in (KEPT / NEWEST / target).iterdir()} == wanted


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", AGAIN)
def test_a_compile_that_is_watched_anew_is_what_is_kept(name, target):
    path = path_of(name, target, minor())
    if not path.exists():  # of some models for one target, of an older torch for some models
        pytest.skip(f"nothing is kept of {name} for {target} with torch {minor()}")
    assert told(json.loads(json.dumps(watched(name, target)))) == told(read_watched(path))


@pytest.mark.parametrize("path", sorted(KEPT.glob("*/*/softmax.json.xz")), ids=lambda path: "-".join(path.parts[-3:-1]))
def test_what_is_kept_keeps_to_its_schema(path):
    check_schema(read_watched(path), read_schema("schemas/watched.schema.yaml"), str(path))
