// The eager path of minikernel.softmax, in C++: what a call costs the host before the GPU has its kernel.
//
// A launch through Python costs 10 us on the host, F.softmax's 6, and at 64 x 600 the kernel itself runs
// for 2: there the host is the whole cost. Here a call tests that its tensor is plain, looks its launch up,
// allocates the result and launches; autograd's node is C++ too. Which kernel is launched, and how, stays
// decided in Python (minikernel.ops.operator.native.resolve), once for each width and dtype. Whatever is not plain
// returns None: the operator takes it (minikernel/ops/operator/operator.py).
//
// No CUDA header is needed, so that any C++ compiler builds it: the stream is torch's own, and
// cuLaunchKernel is looked up in the driver's library.
#include <dlfcn.h>

#include <map>
#include <mutex>
#include <tuple>

#include <ATen/PythonTorchFunctionTLS.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/empty.h>
#include <ATen/record_function.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <torch/csrc/Exceptions.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/functions/utils.h>
#include <torch/csrc/autograd/python_variable.h>
#include <torch/csrc/autograd/saved_variable.h>
#include <torch/csrc/dynamo/compiled_autograd.h>
#include <torch/csrc/utils/pybind.h>

namespace {

namespace py = pybind11;
using at::Tensor;

// What Python decided for a key, as numbers: a call needs none of its objects any more.
struct Launch {
    void* function;  // CUfunction; null: the operator has to do it
    int64_t rows;    // `blocks` blocks for each `rows` rows
    unsigned blocks, threads, shared_bytes;
};

// backward, dtype, the rows' binary logarithm, cols, device
using Key = std::tuple<bool, c10::ScalarType, int, int64_t, int>;

PyObject* resolve = nullptr;  // (backward, dtype, rows, cols, aligned, device) -> the fields of Launch
std::map<Key, Launch> launches;
std::mutex launches_mutex;  // never held while waiting for Python's lock

Launch launch_for(bool backward, const Tensor& x)
{
    int64_t cols = x.size(-1), rows = x.numel() / cols;
    // Rows count by their power of two: the dispatch table knows rows only roughly, and a batch of varying size does
    // not ask Python each time.
    Key key{backward, x.scalar_type(), 63 - __builtin_clzll(rows), cols, x.get_device()};
    thread_local std::pair<Key, Launch> last[2];  // forward, backward: a loop asks for the same again
    auto& [last_key, last_launch] = last[backward];
    if (last_launch.blocks && last_key == key) return last_launch;
    {
        std::lock_guard<std::mutex> guard(launches_mutex);
        auto found = launches.find(key);
        if (found != launches.end()) {
            last[backward] = *found;
            return found->second;
        }
    }
    // Found by nobody: ask Python. The mutex is free meanwhile, or a thread that holds Python's lock and waits for the
    // mutex would wait for ever; two threads may ask for the same, and get the same.
    py::gil_scoped_acquire python;
    bool aligned = cols * x.element_size() % 16 == 0;
    auto fields = py::reinterpret_borrow<py::object>(resolve)(
        backward, c10::toString(x.scalar_type()), rows, cols, aligned, x.get_device());
    auto [function, rows_at_once, blocks, threads, shared_bytes] =
        fields.cast<std::tuple<uintptr_t, int64_t, unsigned, unsigned, unsigned>>();
    Launch launch{reinterpret_cast<void*>(function), rows_at_once, blocks, threads, shared_bytes};
    std::lock_guard<std::mutex> guard(launches_mutex);
    return launches[key] = launch;
}

void run(const Launch& launch, std::initializer_list<const void*> tensors, const Tensor& x)
{
    using LaunchKernel = int (*)(void*, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void*,
                                 void**, void**);
    static auto launch_kernel =
        reinterpret_cast<LaunchKernel>(dlsym(dlopen("libcuda.so.1", RTLD_NOW), "cuLaunchKernel"));
    int64_t cols = x.size(-1), rows = x.numel() / cols;
    // The driver wants the arguments' addresses: up to three pointers, then rows and cols.
    void* arguments[5];
    int count = 0;
    for (const void* const& pointer : tensors) arguments[count++] = const_cast<void**>(&pointer);
    arguments[count++] = &rows;
    arguments[count] = &cols;
    unsigned blocks = (rows + launch.rows - 1) / launch.rows * launch.blocks;
    // torch's current stream, asked for by torch's device interface, which needs no CUDA header
    void* stream = c10::impl::VirtualGuardImpl(c10::kCUDA).getStream(x.device()).native_handle();
    int error = launch_kernel(launch.function, blocks, 1, 1, launch.threads, 1, 1, launch.shared_bytes, stream,
                              arguments, nullptr);
    TORCH_CHECK(error == 0, "the CUDA driver refused to launch minikernel's softmax: CUresult ", error);
}

// A dense, contiguous CUDA tensor on the current device, from a 16-byte boundary on, in a dtype with kernels.
bool is_plain(const Tensor& x)
{
    // Any other key (a subclass, functorch, a lazy conjugate, a
    // quantised tensor) means that somebody wants to see the call.
    static const c10::DispatchKeySet plain({c10::DispatchKey::CUDA, c10::DispatchKey::AutogradCUDA,
                                            c10::DispatchKey::AutocastCUDA, c10::DispatchKey::ADInplaceOrView});
    auto dtype = x.scalar_type();
    return plain.has_all(x.key_set()) && x.is_cuda() && x.numel() > 0 && x.dim() > 0 && x.is_contiguous() &&
           (dtype == at::kFloat || dtype == at::kBFloat16 || dtype == at::kHalf) &&
           reinterpret_cast<uintptr_t>(x.const_data_ptr()) % 16 == 0 &&
           c10::impl::VirtualGuardImpl(c10::kCUDA).getDevice() == x.device();
}

// No autocast, torch.func, function or dispatch mode, or tracing is at work.
bool dispatch_is_plain()
{
    if (at::impl::torch_function_mode_enabled()) return false;
    // Modes announce themselves by keys that are included or excluded for this thread.
    auto local = c10::impl::tls_local_dispatch_key_set();
    return c10::default_included_set.has_all(local.included_) && local.excluded_.has_all(c10::default_excluded_set);
}

Tensor forward(const Launch& launch, const Tensor& x)
{
    Tensor y = at::empty(x.sizes(), x.options());
    run(launch, {x.const_data_ptr(), y.const_data_ptr()}, x);
    return y;
}

Tensor backward(const Tensor& dy, const Tensor& y)
{
    // Grad mode is on while autograd makes a graph of the backward pass itself (create_graph): that is the operator's.
    if (!at::GradMode::is_enabled() && dispatch_is_plain() && is_plain(dy) && is_plain(y) && dy.sizes() == y.sizes() &&
        dy.scalar_type() == y.scalar_type()) {
        Launch launch = launch_for(true, y);
        if (launch.function) {
            Tensor dx = at::empty(y.sizes(), y.options());
            run(launch, {y.const_data_ptr(), dy.const_data_ptr(), dx.const_data_ptr()}, y);
            return dx;
        }
    }
    // Strided gradients, compiled autograd, and gradients of gradients: the operator knows them all.
    // every argument of its schema: no default is filled in here, and nobody checks
    static auto operation = c10::Dispatcher::singleton()
                                .findSchemaOrThrow("minikernel::softmax_backward", "")
                                .typed<Tensor(const Tensor&, const Tensor&, int64_t, std::optional<at::ScalarType>)>();
    return operation.call(dy, y, -1, std::nullopt);
}

// Autograd's node, written out as torch's own operators have theirs: torch::autograd::Function costs a call 1 us more.
// It is held by a std::shared_ptr, from torch 2.13 on by an intrusive_ptr; the argument, an empty one, tells which.
template <typename T> auto make_node(const std::shared_ptr<torch::autograd::Node>&)
{
    return std::shared_ptr<T>(new T(), [](T* node) { deleteNode(node); });
}
template <typename T> auto make_node(const c10::intrusive_ptr<torch::autograd::Node>&)
{
    return c10::make_intrusive<T>();
}

struct SoftmaxBackward : torch::autograd::Node {
    using variable_list = torch::autograd::variable_list;

    // The output is saved as such (is_output): a plain reference would keep node and tensor alive in a circle.
    torch::autograd::SavedVariable y;

    std::string name() const override { return "MinikernelSoftmaxBackward"; }

    variable_list apply(variable_list&& gradients) override
    {
        std::lock_guard<std::mutex> guard(mutex_);
        if (!gradients[0].defined()) return {Tensor()};
        return {::backward(gradients[0], y.unpack(getptr()))};
    }

    // After a backward pass without retain_graph the memory goes at once, and a second pass is refused by unpack().
    void release_variables() override
    {
        std::lock_guard<std::mutex> guard(mutex_);
        y.reset_data();
    }

    // Compiled autograd traces `traced` in the node's place.
    void compiled_args(torch::dynamo::autograd::CompiledNodeArgs& arguments) const override
    {
        arguments.collect(y, /*is_output=*/true);
    }

    variable_list apply_with_saved(const variable_list& gradients,
                                   torch::dynamo::autograd::SwapSavedVariables& saved) override
    {
        namespace compiled = torch::dynamo::autograd;
        saved.before(y);
        const auto& compiler = compiled::getPyCompilerInterface();
        auto bound = compiler->bind_function(saved.get_py_compiler(), name(), traced, {at::TensorType::get()},
                                             /*is_custom_function=*/true, /*is_traceable=*/true);
        auto outputs = compiled::IValuePacker<std::vector<std::optional<torch::autograd::InputMetadata>>>::pack(
            compiled::get_input_metadata(next_edges()));
        variable_list result = compiler->call_function(saved.get_py_compiler(), "apply_functional", bound, gradients,
                                                       {y.unpack(getptr())}, outputs);
        saved.after(y);
        return result;
    }

    static variable_list traced(const variable_list& gradients, const std::vector<c10::IValue>& arguments)
    {
        return {::backward(gradients[0], arguments[0].toTensor())};
    }
};

Tensor differentiable(const Launch& launch, const Tensor& x)
{
    Tensor y = forward(launch, x);
    auto node = make_node<SoftmaxBackward>(torch::autograd::Edge().function);
    node->set_next_edges(torch::autograd::collect_next_edges(x));
    torch::autograd::set_history(y, node);
    node->y = torch::autograd::SavedVariable(y, /*is_output=*/true);
    return y;
}

// softmax(x, dim): the result, or None where x or the call is not plain.
PyObject* softmax(PyObject*, PyObject* const* arguments, Py_ssize_t count)
{
    HANDLE_TH_ERRORS
    if (count != 2 || !THPVariable_CheckExact(arguments[0]) || !PyLong_Check(arguments[1])) Py_RETURN_NONE;
    const Tensor& x = THPVariable_Unpack(arguments[0]);
    int64_t dim = PyLong_AsLong(arguments[1]);
    if (!is_plain(x) || !dispatch_is_plain() || (dim != -1 && dim != x.dim() - 1) || x._fw_grad(0).defined()) {
        Py_RETURN_NONE;
    }
    Tensor y;
    {
        // Python's lock is given up while the driver is called; it is taken again before a Python object is made.
        py::gil_scoped_release python;
        Launch launch = launch_for(false, x);
        if (launch.function) {
            RECORD_FUNCTION("minikernel::softmax", std::vector<c10::IValue>({x}));
            y = x.requires_grad() && at::GradMode::is_enabled() ? differentiable(launch, x) : forward(launch, x);
        }
    }
    if (!y.defined()) Py_RETURN_NONE;
    return THPVariable_Wrap(std::move(y));
    END_HANDLE_TH_ERRORS
}

PyMethodDef softmax_method = {"softmax", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(softmax)),
                              METH_FASTCALL, "softmax(x, dim): the result, or None where the operator has to do it"};

}  // namespace

PYBIND11_MODULE(TORCH_EXTENSION_NAME, module)
{
    // released, never freed: a destructor at exit could run after Python's end
    module.def("set_resolve", [](py::object function) { resolve = function.release().ptr(); });
    module.def("backward", backward, "backward(dy, y): what the node calls");
    module.add_object("softmax", PyCFunction_New(&softmax_method, nullptr));
}
