"""What tests of all rooms use: which cases a plain `pytest` leaves out, the order of the files, what is made once."""

import fcntl
import gc
import os
import re
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

HERE = Path(__file__).parent
# Spares each of Inductor's fresh caches its probe of the vector unit, which takes longer than the compile it is for.
os.environ.setdefault("TORCHINDUCTOR_VEC_ISA_OK", "1")
# And each compile a garbage collection.
os.environ.setdefault("TORCH_DYNAMO_RUN_GC_AFTER_COMPILE", "0")
# What processes allocate comes in large pages, where Linux gives them on demand: fewer faults.
os.environ.setdefault("GLIBC_TUNABLES", "glibc.malloc.hugetlb=1")  # read as a process starts
# Threads that wait for work sleep: two workers and what they start would otherwise burn each other's cores.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
os.environ.setdefault("OPENBLAS_THREAD_TIMEOUT", "4")  # 2^4 cycles; NumPy reads it as it is imported

# A busy machine is no fault of what is tested.
settings.register_profile("lab", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("lab")

# Cases that take long beside what only they would notice: `pytest` leaves them out, `pytest -m "slow or not slow"` and
# continuous integration run them. The rest of their file, or the file that is named, tries the same code on less.
SLOW = (
    # the whole lab: workflow/test_every_rule.py runs every rule once, faults/test_kill.py kills single jobs
    r"cluster/test_slurm\.py",
    r"cluster/test_profiles\.py::test_without_cores.*\[gpu",
    r"workflow/test_compile_dag\.py::test_words_are",
    r"workflow/test_(every_rule|front_door)\.py",  # the main job, really built, stays; and dry runs of every stage
    r"workflow/test_every_source\.py::test_(an_edit_of_(any_module|one_module|meaning)|the_safety|a_contest)",
    r"workflow/test_exercise_rule\.py::test_(what_is_not_b|an_edited|a_class_is_g|who_is_right|only_what_is_h)",
    r"workflow/test_model_dag\.py::test_an_edit_redoes_what_depends_on_it.*kernels",
    r"workflow/test_dag\.py::test_(an_edit_of_a_rung_that_only|nothing_to_do_once_built_with)",
    r"workflow/test_user_kernels\.py",  # each way of misbehaving: minikernel/judge/
    r"workflow/test_end_to_end\.py::test_an_edited_kernel_turns",
    r"faults/test_kill\.py::test_a_killed_snakemake_is_gone_on_with",
    r"faults/test_broken_files\.py::test_(a_flipped_bit|a_deleted_checkpoint|verify_records)",  # scripts/ verifies too
    r"faults/test_broken_world\.py::test_(a_full_disk$|a_limit_of|two_at_once|no_home|an_ascii|a_clock)",
    r"faults/test_bad_code\.py::test_(models_that|kernels_that|a_(wrong_kernel|triton_kernel_that_does_not))",
    r"faults/test_kill\.py::test_(code_of_yours|a_killed_job.*\[corpus)",
    # scripts of which test_every_rule.py runs the rules
    r"scripts/test_stage24_scripts\.py::test_(what_goes_wrong_in_its_proof|a_users_kernel_)",
    # compiles: other models, modes and backends of the same tests stay
    r"minicompile/safe/test_safe_matrix_inductor\.py::(?!.*mode default, automatic shapes)",
    r"minicompile/safe/test_safe_matrix_backends\.py::(?!.*automatic shapes)",
    r"minicompile/safe/test_safe_matrix_.*\[(minigpt|it compiles.*step|a backend.*mode (reduce|max))",
    r"minicompile/safe/test_safe_distributed\.py::test_(every_rank_compiles|under_fsdp2)",
    r"minicompile/test_validate\.py::test_the_script_passes",
    r"minicompile/lowering/test_capture\.py::(.*\[training|test_(a_backward|simulated_kernels_come))",
    r"minicompile/lowering/test_capture\.py::test_(layers_that_share|the_simulated_target_saves)",
    r"minicompile/explain/test_annotation\.py::test_a_fresh_capture",
    r"minicompile/explain/test_every_model\.py::.*\[(2\.11|2\.14|2\.13-cpu|.*-bytes)",  # the newest's for a GPU stay
    r"minicompile/test_zoo_proofs\.py",
    r"minicompile/explain/test_standalone\.py::test_a_copied_kernel_passes.*layered",
    r"minicompile/safe/test_safe_apart\.py::test_inductor_compiles_in_a_copy",
    r"minicompile/test_random_models\.py::.*\[12",  # another seed, the other target
    r"minicompile/torch_private/test_gpu_decompositions\.py::test_(a_cell_is_one_operation|statistics|the_kernels_of)",
    r"minicompile/profile/test_users_profile\.py",
    r"minicompile/command/test_command\.py::test_an_unchanged_script_is_run",
    r"minicompile/lowering/test_capture_calls\.py::test_a_training_step_is_captured.*cpu",
    r"minicompile/test_what_if\.py::test_(an_epilogue|without_vectors|fused_attention|what_is_found_fits)",
    r"minicompile/profile/test_profile_measure\.py",
    r"minicompile/distributed/test_distributed\.py",  # ranks; what they send is counted without them too
    r"docs/test_site\.py",
    r"notebooks/test_notebooks\.py::test_it_runs.*\[(1_s|3_w)",  # the one that compiles stays
    r"docs/test_playbook\.py::test_every_snippet_runs\[(shapes|torch_compile)",
    # kernels: other widths and types of the same tests stay
    r"minikernel/proof/test_compile_triton\.py::test_triton_compiles_in.*(bfloat16|float16)",
    r"minikernel/proof/test_compile_triton\.py::test_every_triton_candidate",
    r"minikernel/proof/test_compile_cuda\.py::test_cuda_c_compiles_in_every_instance.*(fused|backward|head)",
    r"minikernel/proof/test_compile_cuda\.py::test_(nvrtc_tells|two_blocks_of_512)",
    r"minikernel/judge/test_judge_proof\.py::test_(one_that_hangs|a_triton_kernel_that_writes)",
    r"minikernel/judge/test_client\.py::test_a_figure_that_is_none",
    r"minikernel/judge/test_judge_proof\.py::test_what_ends_or_spoils.*\[(leaves|closes|makes|writes_a_v)",
    r"minikernel/judge/test_judge_proof\.py::test_what_ends_or_spoils.*\[(patches_torch|multiplies)",
    r"minikernel/judge/test_judge_bench\.py::test_(one_that_hangs|a_good_kernel_is_timed)",
    r"minikernel/judge/test_judge_bench\.py::test_what_is_wrong.*\[(wrong_when|remembers_by_f|crashes|slows)",
    r"minikernel/model/block/test_forward_block\.py::test_every_size_is_the_model",
    r"minikernel/model/block/test_forward_block\.py::test_the_kernels_compile_for",  # the emulator compiles them too
    r"minikernel/ops/operator/test_native\.py::test_it_builds_here",
    r"minikernel/ops/ladder/test_softmax_triton_textbook\.py::test_it_passes_the_proof",
    r"minikernel/ops/cpu/test_cpu_build\.py::test_the_compiler_is_the_one",
    r"minikernel/ops/operator/test_operator\.py::test_a_fake_cuda_tensor",  # builds it as well
    r"minikernel/model/test_native_launch\.py",
    r"minikernel/model/test_forward\.py::.*\[in C\+\+",
    r"minikernel/ops/test_softmax_properties\.py::test_the_triton_properties_hold_in_its_interpreter",
    r"minikernel/ops/test_softmax_triton\.py::test_rows_looped_over.*\[150[03]",
    r"minikernel/ops/test_softmax_backward\.py::test_the_triton_backward_interpreted.*1\]",
    r"minikernel/exercise/test_exercise\.py::test_(an_exercise_is_timed|a_right_one_of_torch_s)",
    r"(faults/test_campaign\.py::test_every_forgery|test_on_sound_cpus\.py::test_a_command_rests)",
    r"minilab/sandbox/test_job\.py::test_one_that_hangs",
    r"minikernel/exercise/test_solutions\.py::test_wrong_ones_get_their_hints.*(those between|\[(?!row|online))",
    r"minikernel/exercise/test_exercise\.py::test_the_frames_in_pytorch_and_triton.*\[1",
    r"minikernel/exercise/grading/test_grade\.py::test_a_student_is_marked",
    r"minikernel/exercise/grading/test_marking\.py::test_(a_class_marked|times_are)",
    r"minikernel/exercise/grading/test_marking\.py::test_one_that_misbehaves.*\[(hangs|multiplies|eats|exits)",
    r"minikernel/exercise/grading/test_marking\.py::test_one_that_misbehaves.*\[(Latin|another)",
    r"minikernel/report/test_languages\.py::test_the_pictures\[draw_(roofline|exercise)s",
    # the same in another window, or of another page
    r"browser/test_(accessibility|timeline_browser)\.py::.*\[(800|1920) dark",
    r"browser/test_site_browser\.py",
    r"browser/test_explorer_browser\.py::.*\[(both-opened|spanish|both-en-opened1|simulated-en|backward-opened[12])",
    r"browser/test_explorer_browser\.py::.*(an_address_that_names_no_line|every_strip.*opened[12])",
    r"browser/test_what_if_browser\.py::test_axe.*1280",
)

# What takes longest comes first: a worker that began with it at the end would leave the others with nothing to do.
# Each file stays with one worker (`--dist loadfile`), so it is the order of files that counts.
LONGEST_FIRST = (
    "minicompile/explain/test_every_model.py",
    "cluster/test_slurm.py",
    "workflow/test_every_rule.py",
    "browser/",
    "minicompile/safe/test_safe_matrix_inductor.py",
    "minicompile/lowering/test_capture.py",
    "docs/test_playbook.py",
    "faults/",
    "workflow/test_dag.py",
    "workflow/test_user_kernels.py",
    "minicompile/",
    "minikernel/",
    "scripts/",
    "workflow/",  # some ask the lab that test_every_rule.py builds
)


def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """A worker more than there are cores: some tests wait, for a process, a browser, a limit of time to run out."""
    return len(os.sched_getaffinity(0)) + 1


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--every-case", action="store_true", help="whole matrices, where pairs of values are tried else")


@pytest.hookimpl(tryfirst=True)  # before pytest leaves out what `-m` does
def pytest_collection_modifyitems(session: pytest.Session, config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark what is slow, and sort the files by what is known of their time; within a file the order stays."""
    if not config.getoption("every_case", default=False):
        config.hook.pytest_deselected(items=[item for item in items if item.get_closest_marker("spared")])
        items[:] = [item for item in items if not item.get_closest_marker("spared")]
    names = {item: os.path.relpath(item.path, HERE) + item.nodeid.partition(".py")[2] for item in items}
    slow, seen = [re.compile(pattern) for pattern in SLOW], set()
    for item, name in names.items():
        found = {pattern.pattern for pattern in slow if pattern.match(name)}
        if found:
            item.add_marker("slow")
        seen |= found
    whole = config.args_source is pytest.Config.ArgsSource.TESTPATHS and not session.testsfailed
    if whole and (gone := set(SLOW) - seen):
        raise pytest.UsageError(f"tests/conftest.py: SLOW names what is no test any more: {', '.join(sorted(gone))}")

    def place(item: pytest.Item) -> int:
        return next((rank for rank, known in enumerate(LONGEST_FIRST) if names[item].startswith(known)), 99)

    items.sort(key=place)


def pytest_collection_finish() -> None:
    """Let the garbage collector look at what tests make, and not at what was imported for them, again and again.

    A fork that collects would besides copy every page of it.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)
    if guards := sys.modules.get("torch._dynamo.guards"):
        guards.profile_guard_manager = lambda *_: 0.0  # it empties the processor's cache first, at each compile
    torch = sys.modules.get("torch")
    if torch and not torch.accelerator.is_available():
        # Before anything is traced: of a build for CUDA autograd would start threads then, and tests could try no model
        # in a copy of their process.
        torch.ones((), requires_grad=True).backward()


def pytest_unconfigure() -> None:
    """Give everything back to the collector, for what looks for leaks as the process ends."""
    gc.unfreeze()


@pytest.fixture(autouse=True)
def same_excepthook():
    """With each process group torch wraps the hook of uncaught exceptions, and it leaves it so afterwards."""
    hook = sys.excepthook
    yield
    sys.excepthook = hook


@pytest.fixture
def says(request: pytest.FixtureRequest) -> str:
    """The sentence that the test's fault declares, or its case's."""
    return request.node.get_closest_marker("fault").args[1]


@pytest.fixture(scope="session")
def once(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str, Callable[[Path], object]], Path]:
    """A function `once(name, make)`: the folder that `make(folder)` has filled, once for all workers of the session.

    Whoever asks first makes it, and the others wait for that. The folder is not to be changed; a test copies it.
    """
    base = tmp_path_factory.getbasetemp()
    shared = base.parent if base.name.startswith("popen-") else base  # pytest-xdist gives each worker a folder in it

    def made(name: str, make: Callable[[Path], object]) -> Path:
        folder, done = shared / f"once-{name}", shared / f"once-{name}.done"
        with open(shared / f"once-{name}.lock", "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not done.exists():
                shutil.rmtree(folder, ignore_errors=True)  # of a worker that could not make it
                folder.mkdir()
                make(folder)
                done.touch()
        return folder

    return made
