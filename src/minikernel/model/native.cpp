// A further call of minigpt_forward, in C++: what it costs the host before the GPU has its kernel, and after.
//
// Between two calls a program does other things, and the processor's caches forget this one. What counts then is how
// much memory a call touches: in Python that is every object on the way, from the dictionaries of the model's modules to
// the numbers that are compared, one miss after the other. Here a call looks its launch up, allocates the result,
// launches, and then compares each parameter's version and address while the GPU computes.
//
// Which kernel is launched, and how, stays decided in Python. Whatever is not plain, or has changed, returns None: the
// first call's path takes it (forward.py). No CUDA header is needed, so that any C++ compiler builds it.
#include <dlfcn.h>

#include <algorithm>
#include <memory>
#include <vector>

#include <ATen/PythonTorchFunctionTLS.h>
#include <ATen/ops/empty.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <torch/csrc/Exceptions.h>
#include <torch/csrc/autograd/python_variable.h>
#include <torch/csrc/utils/pybind.h>

namespace {

namespace py = pybind11;
using at::Tensor;

// What a table of a module must still hold: a parameter with these values, or another module.
struct Watched {
    PyObject *table, *name, *held;  // which `Kept::weights` keeps; a Tensor of our own would forbid swap_tensors
    bool is_parameter;
    uint32_t version;
    const void* address;

    bool current() const
    {
        if (PyDict_GetItem(table, name) != held) return false;
        if (!is_parameter) return true;
        const Tensor& parameter = THPVariable_Unpack(held);
        return parameter.unsafeGetTensorImpl()->version_counter().current_version() == version &&
               parameter.const_data_ptr() == address;
    }
};
using Fields = std::tuple<py::dict, py::str, py::object, uint32_t, uintptr_t>;

struct Launch {
    int64_t sequences, length;
    bool probabilities;
    void* function;
    unsigned blocks, threads, shared_bytes;
    std::vector<uint64_t> before, after;  // arguments before and behind the ids' address and the result's
};

struct Kept {
    PyObject* model;  // by whose address it is looked up; `forget` is called before there can be another at it
    py::object weights;
    at::TensorOptions options;
    int64_t words;
    std::vector<Watched> watched;
    std::vector<std::shared_ptr<const Launch>> launches;  // the last used first
    bool in_graphs = false;

    bool current() const
    {
        return std::all_of(watched.begin(), watched.end(), [](const Watched& each) { return each.current(); });
    }

    std::shared_ptr<const Launch> launch_for(const Tensor& ids, bool probabilities)
    {
        for (size_t i = 0; i < launches.size(); ++i) {
            const Launch& each = *launches[i];
            if (each.sequences == ids.size(0) && each.length == ids.size(1) && each.probabilities == probabilities) {
                // A hit moves up by one: shapes in use gather in front without a list that moves for each call.
                if (i) std::swap(launches[i], launches[i - 1]);
                return launches[i ? i - 1 : 0];
            }
        }
        return nullptr;
    }
};

constexpr size_t MOST_LAUNCHES = 32;  // of a model; Python keeps more

auto& all = *new std::vector<std::shared_ptr<Kept>>;  // the models that were called; Python's lock protects it

using LaunchKernel = int (*)(void*, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void*, void**,
                             void**);
using IsCapturing = int (*)(void*, int*);
LaunchKernel launch_kernel;
IsCapturing is_capturing;

std::shared_ptr<Kept> kept_for(PyObject* model)
{
    for (const auto& each : all)
        if (each->model == model) return each;
    return nullptr;
}

// Dense, contiguous ids (B, T) int64 on the model's device.
bool is_plain(const Tensor& ids, const Kept& kept)
{
    using c10::DispatchKey;
    // CPU keys are taken too, so that tests can call this without a GPU.
    static const c10::DispatchKeySet plain({DispatchKey::CUDA, DispatchKey::AutogradCUDA, DispatchKey::AutocastCUDA,
                                            DispatchKey::CPU, DispatchKey::AutogradCPU, DispatchKey::AutocastCPU,
                                            DispatchKey::ADInplaceOrView});
    return plain.has_all(ids.key_set()) && ids.scalar_type() == at::kLong && ids.dim() == 2 &&
           ids.device() == kept.options.device() && ids.is_contiguous();
}

// No torch.func, function or dispatch mode, or tracing is at work; autocast, which allocates as usual, may be.
bool dispatch_is_plain()
{
    if (at::impl::torch_function_mode_enabled()) return false;
    static const c10::DispatchKeySet included = c10::default_included_set | c10::autocast_dispatch_keyset,
                                     excluded = c10::default_excluded_set - c10::autocast_dispatch_keyset;
    auto local = c10::impl::tls_local_dispatch_key_set();
    return included.has_all(local.included_) && local.excluded_.has_all(excluded);
}

// again(model, ids, probabilities): the result, or None where there is no launch for it or the weights have changed.
PyObject* again(PyObject*, PyObject* const* arguments, Py_ssize_t count)
{
    HANDLE_TH_ERRORS
    if (count != 3 || !THPVariable_CheckExact(arguments[1]) || !PyBool_Check(arguments[2])) Py_RETURN_NONE;
    auto kept = kept_for(arguments[0]);
    const Tensor& ids = THPVariable_Unpack(arguments[1]);
    if (!kept || !is_plain(ids, *kept) || !dispatch_is_plain()) Py_RETURN_NONE;
    auto launch = kept->launch_for(ids, arguments[2] == Py_True);
    c10::Device device = kept->options.device();
    if (!launch || (device.is_cuda() && c10::impl::VirtualGuardImpl(c10::kCUDA).getDevice() != device)) Py_RETURN_NONE;

    Tensor out;
    int capturing = 0;
    {
        // Other threads may run while the driver works; `kept` and `launch` are shared pointers of our own and stay.
        py::gil_scoped_release python;
        void* stream = nullptr;
        if (device.is_cuda()) stream = c10::impl::VirtualGuardImpl(c10::kCUDA).getStream(device).native_handle();
        out = at::empty({launch->sequences, launch->length, kept->words}, kept->options);
        // The driver takes addresses of arguments: those that are
        // fixed lie in the launch, the two that move on the stack.
        const void *from = ids.const_data_ptr(), *to = out.const_data_ptr();
        void* values[24];
        int place = 0;
        for (const uint64_t& each : launch->before) values[place++] = const_cast<uint64_t*>(&each);
        values[place++] = &from;
        values[place++] = &to;
        for (const uint64_t& each : launch->after) values[place++] = const_cast<uint64_t*>(&each);
        int error = launch_kernel(launch->function, launch->blocks, 1, 1, launch->threads, 1, 1, launch->shared_bytes,
                                  stream, values, nullptr);
        if (error) out = Tensor();  // Python's path knows what to do, or what to say
        else if (!kept->in_graphs) is_capturing(stream, &capturing);
    }
    if (capturing) {
        kept->in_graphs = true;
        kept->weights.attr("in_graphs") = true;
    }
    // The look at the weights comes after the launch, while the GPU computes. Where one has changed, nobody sees this
    // result, and the first call's path packs and launches anew.
    if (!out.defined() || !kept->current()) Py_RETURN_NONE;
    return THPVariable_Wrap(std::move(out));
    END_HANDLE_TH_ERRORS
}

void forget(uintptr_t model)
{
    for (size_t i = 0; i < all.size(); ++i)
        if (reinterpret_cast<uintptr_t>(all[i]->model) == model) {
            auto last = std::move(all[i]);  // what it holds goes when the list is whole again
            all.erase(all.begin() + i);
            return;
        }
}

// The weights of a model, what its tables must hold for them to be its own, and a tensor like its results.
void keep(py::object model, py::object weights, const std::vector<Fields>& tables, const Tensor& like, int64_t words)
{
    // old weights of the same model, and their launches
    forget(reinterpret_cast<uintptr_t>(model.ptr()));
    auto kept = std::make_shared<Kept>();
    kept->model = model.ptr(), kept->weights = std::move(weights);
    kept->options = like.options().requires_grad(false), kept->words = words;
    for (const auto& [table, name, held, version, address] : tables)
        kept->watched.push_back({table.ptr(), name.ptr(), held.ptr(), THPVariable_Check(held.ptr()), version,
                                 reinterpret_cast<const void*>(address)});
    all.push_back(std::move(kept));
}

void add(py::object model, int64_t sequences, int64_t length, bool probabilities, uintptr_t function, unsigned blocks,
         unsigned threads, unsigned shared_bytes, std::vector<uint64_t> before, std::vector<uint64_t> after)
{
    auto kept = kept_for(model.ptr());
    TORCH_CHECK(kept && before.size() + after.size() + 2 <= 24, "no such model is kept, or it has too many arguments");
    for (const auto& each : kept->launches)
        if (each->sequences == sequences && each->length == length && each->probabilities == probabilities) return;
    // the last of the list: the one whose hits are longest ago, or nearly
    if (kept->launches.size() == MOST_LAUNCHES) kept->launches.pop_back();
    kept->launches.push_back(std::make_shared<const Launch>(
        Launch{sequences, length, probabilities, reinterpret_cast<void*>(function), blocks, threads, shared_bytes,
               std::move(before), std::move(after)}));
}

void use_driver(uintptr_t launch, uintptr_t capturing)
{
    // Addresses that Python's ctypes has looked up: no driver library is linked.
    launch_kernel = reinterpret_cast<LaunchKernel>(launch);
    is_capturing = reinterpret_cast<IsCapturing>(capturing);
}

PyMethodDef again_method = {"again", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(again)), METH_FASTCALL,
                            "again(model, ids, probabilities): the result, or None where the first call's path has to"};

}  // namespace

PYBIND11_MODULE(TORCH_EXTENSION_NAME, module)
{
    module.def("keep", keep);
    module.def("add", add);
    module.def("forget", forget);
    module.def("use_driver", use_driver);
    module.add_object("again", PyCFunction_New(&again_method, nullptr));
}
