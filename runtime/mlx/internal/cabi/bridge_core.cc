// Handles, errors, evaluation, and the device thread.
#include <algorithm>
#include <atomic>
#include <cstring>

#include "bridge_internal.h"

namespace mx = mlx::core;

namespace ingot {

namespace {
thread_local bool device_thread = false;
bool cpu_backend = false;
std::atomic<int64_t> handles{0};

const mx::Dtype dtypes[] = {mx::bool_,  mx::uint8,   mx::uint16,   mx::uint32, mx::int32,
                            mx::float16, mx::bfloat16, mx::float32, mx::int64,  mx::uint64};
}  // namespace

bool on_device_thread() { return device_thread; }
bool on_cpu() { return cpu_backend; }

int classify(const char* what, Phase phase) {
  auto has = [what](const char* s) { return std::strstr(what, s) != nullptr; };
  if (has("Resource limit")) return IG_RESOURCE;
  if (has("Unable to allocate") || has("malloc") || has("out of memory") || has("OutOfMemory") ||
      has("Insufficient Memory"))
    return IG_MEMORY;
  if (has("cuGraphAddKernelNode")) return IG_LAUNCH;  // refused before it runs
  return phase == Phase::build ? IG_INVALID : IG_DEVICE;
}

void copy_text(char* text, const char* what) {
  if (text == nullptr) return;
  std::strncpy(text, what, IG_MAX_TEXT - 1);
  text[IG_MAX_TEXT - 1] = 0;
}

array& ref(ig_array h) {
  if (h == 0) throw std::invalid_argument("an array that was freed or never made");
  return *reinterpret_cast<array*>(h);
}

ig_array give(array a) {
  auto h = reinterpret_cast<ig_array>(new array(std::move(a)));
  handles.fetch_add(1, std::memory_order_relaxed);
  return h;
}

mx::Dtype dtype(int code) {
  if (code < 0 || code >= int(std::size(dtypes))) throw std::invalid_argument("no dtype " + std::to_string(code));
  return dtypes[code];
}

int code(mx::Dtype d) {
  for (int i = 0; i < int(std::size(dtypes)); i++)
    if (dtypes[i] == d) return i;
  throw std::invalid_argument("a dtype that Ingot does not use");
}

const std::string& mode(int code) {
  static const std::string modes[] = {"affine", "mxfp4", "nvfp4", "mxfp8"};
  if (code < 0 || code >= int(std::size(modes))) throw std::invalid_argument("no quantization mode " + std::to_string(code));
  return modes[code];
}

const array& Args::operator[](int k) const {
  if (!has(k)) throw std::invalid_argument("input " + std::to_string(k) + " is missing");
  return ref(c_.in[k]);
}

std::optional<array> Args::opt(int k) const {
  if (!has(k)) return std::nullopt;
  return ref(c_.in[k]);
}

int Args::i(int k) const {
  if (k >= c_.nints) throw std::invalid_argument("integer " + std::to_string(k) + " is missing");
  return c_.ints[k];
}

float Args::f(int k) const {
  if (k >= c_.nfloats) throw std::invalid_argument("number " + std::to_string(k) + " is missing");
  return float(c_.floats[k]);
}

Shape Args::shape(int from, int count) const {
  if (count < 0 || from + count > c_.nints) throw std::invalid_argument("dimensions are missing");
  return Shape(c_.ints + from, c_.ints + from + count);
}

std::vector<int> Args::list(int from, int count) const {
  if (count < 0 || from + count > c_.nints) throw std::invalid_argument("integers are missing");
  return std::vector<int>(c_.ints + from, c_.ints + from + count);
}

std::vector<int> Args::axes(int from) const { return list(from, c_.nints - from); }

std::vector<array> Args::all(int from) const {
  std::vector<array> v;
  v.reserve(c_.nin);
  for (int k = from; k < c_.nin; k++) v.push_back((*this)[k]);
  return v;
}

void Outs::push(array a) {
  if (c_.nout >= IG_MAX_OUT) throw std::invalid_argument("too many results");
  if (a.ndim() > IG_MAX_DIMS) throw std::invalid_argument("too many dimensions");
  auto& o = c_.out[c_.nout];
  o.dtype = code(a.dtype());
  o.ndim = int(a.ndim());
  std::copy(a.shape().begin(), a.shape().end(), o.dims);
  o.array = give(std::move(a));
  c_.nout++;
}

void Outs::push(std::vector<array> as) {
  for (auto& a : as) push(std::move(a));
}

}  // namespace ingot

using namespace ingot;

namespace {
void release(ig_array h) {
  if (h == 0) return;
  delete reinterpret_cast<array*>(h);
  handles.fetch_sub(1, std::memory_order_relaxed);
}

// Whatever a failed call had already written must not outlive it.
int answered(ig_call* c, int status) {
  if (status == IG_OK) return status;
  for (int k = 0; k < c->nout; k++) release(c->out[k].array);
  c->nout = 0;
  return status;
}

std::vector<array> refs(const ig_array* in, size_t n) {
  std::vector<array> v;
  v.reserve(n);
  for (size_t k = 0; k < n; k++) v.push_back(ref(in[k]));
  return v;
}

array blank(const Shape& shape, mx::Dtype d) {
  size_t n = d.size();
  for (auto dim : shape) {
    if (dim < 0) throw std::invalid_argument("a negative dimension");
    n *= size_t(dim);
  }
  return array(mx::allocator::malloc(n), shape, d);
}
}  // namespace

extern const Op ingot_ops[];
extern const int ingot_ops_count;

int ig_op(const char* name) {
  for (int k = 0; k < ingot_ops_count; k++)
    if (std::strcmp(ingot_ops[k].name, name) == 0) return k;
  return -1;
}

int ig_run(ig_call* c) {
  c->nout = 0;
  return answered(c, guard(c->text, Phase::build, [c] {
    Outs out(*c);
    ingot_ops[c->op].run(Args(*c), out);
  }));
}

int ig_new(ig_call* c, const void* data, size_t n) {
  c->nout = 0;
  return answered(c, guard(c->text, Phase::build, [=] {
    Args a(*c);
    array x = blank(a.shape(1), dtype(a.i(0)));
    if (data != nullptr && n != x.nbytes())
      throw std::invalid_argument(std::to_string(n) + " bytes for an array of " + std::to_string(x.nbytes()));
    if (data != nullptr && n > 0) std::memcpy(x.data<char>(), data, n);
    Outs(*c).push(std::move(x));
  }));
}

int ig_bytes(ig_array h, uintptr_t* data, size_t* n, char* text) {
  return guard(text, Phase::run, [=] {
    array& a = ref(h);
    if (!a.is_available() || !a.flags().row_contiguous)
      throw std::invalid_argument("the bytes of an array that is not evaluated and row-contiguous");
    *n = a.nbytes();
    *data = *n == 0 ? 0 : reinterpret_cast<uintptr_t>(a.data<char>());
  });
}

int ig_read(ig_array h, int to, void* dst, size_t n, char* text) {
  return guard(text, Phase::run, [=] {
    array a = ref(h);
    if (a.size() != n)
      throw std::invalid_argument("reading " + std::to_string(n) + " values of an array of " + std::to_string(a.size()));
    auto d = dtype(to);
    if (a.dtype() != d) a = mx::astype(a, d);
    a = mx::contiguous(a);
    a.eval();
    if (n > 0) std::memcpy(dst, a.data<char>(), a.nbytes());
  });
}

int ig_eval(const ig_array* in, size_t n, int wait, char* text) {
  return guard(text, Phase::run, [=] {
    if (wait != 0)
      mx::eval(refs(in, n));
    else
      mx::async_eval(refs(in, n));
  });
}

int ig_synchronize(char* text) {
  return guard(text, Phase::run, [] { mx::synchronize(); });
}

int ig_recover(ig_call* c) {
  c->nout = 0;
  return answered(c, guard(c->text, Phase::build, [c] {
    const array lost = ref(c->in[0]);
    array a = lost;
    while (a.status() == array::unscheduled) {
      if (a.inputs().empty()) throw std::invalid_argument("nothing evaluated to recover");
      array first = a.inputs()[0];
      a = first;
    }
    if (a.shape() != lost.shape() || a.dtype() != lost.dtype())
      throw std::invalid_argument("what the array was made from is no state of its kind");
    Outs(*c).push(std::move(a));
    release(c->in[0]);
    c->in[0] = 0;
  }));
}

int ig_free(const ig_array* in, size_t n) {
  return guard(nullptr, Phase::run, [=] {
    for (size_t k = 0; k < n; k++) release(in[k]);
  });
}

int ig_classify(const char* what, int running) { return classify(what, running != 0 ? Phase::run : Phase::build); }

int64_t ig_handles(void) { return handles.load(std::memory_order_relaxed); }

int ig_open(int kind, int* opened, char* text) {
  device_thread = true;
  int status = guard(text, Phase::run, [=] {
    install_ledger();
    bool gpu = kind != IG_CPU && mx::is_available(mx::Device(mx::Device::gpu));
    if (kind == IG_GPU && !gpu) throw std::runtime_error("this build of MLX has no GPU here");
    mx::set_default_device(mx::Device(gpu ? mx::Device::gpu : mx::Device::cpu));
    cpu_backend = !gpu;
    *opened = gpu ? IG_GPU : IG_CPU;
    probe_ledger();
  });
  if (status != IG_OK) device_thread = false;
  return status;
}

void ig_close(void) {
  if (!device_thread) return;
  guard(nullptr, Phase::run, [] { mx::synchronize(); });
  device_thread = false;
}

int ig_on_thread(void) { return device_thread ? 1 : 0; }
