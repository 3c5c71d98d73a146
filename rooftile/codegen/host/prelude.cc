// SPDX-License-Identifier: Apache-2.0
// See prelude.h. Two halves: what the hot path inlines, and the cold half that runs after a
// violation.
#include "rooftile/codegen/host/prelude.h"

namespace rooftile::host {
namespace {

constexpr const char* kHotHalf = R"RT(
// ---- launcher support: the same in every launcher ----------------------------------------------------------------
extern "C" {
int snprintf(char*, __SIZE_TYPE__, const char*, ...);
int posix_memalign(void**, __SIZE_TYPE__, __SIZE_TYPE__);
void free(void*);
void* dlsym(void*, const char*);
void* dlopen(const char*, int);
}

namespace {
namespace rth {

typedef __INT64_TYPE__ i64;
typedef __UINT64_TYPE__ u64;
typedef __INT32_TYPE__ i32;
typedef __UINT32_TYPE__ u32;

// DLPack and TVM-FFI, C layout.
struct DlTensor {
  char* data;
  i32 device_type, device_id, ndim;
  u32 dtype;  // code | bits << 8 | lanes << 16
  const i64* shape;
  const i64* strides;
  u64 byte_offset;
};
struct Any {
  i32 type;
  u32 padding;
  union {
    i64 i;
    double f;
    char* p;
  };
};
static_assert(sizeof(DlTensor) == 48 && sizeof(Any) == 16, "C layout");

inline const DlTensor* tensor(const Any& a) {
  if (__builtin_expect(a.type == 7, 1)) return (const DlTensor*)a.p;
  return a.type == 70 && a.p ? (const DlTensor*)(a.p + 24) : nullptr;  // ffi.Tensor: 24-byte object header
}
inline char* first_byte(const DlTensor* t) {  // as integers: the pointer may be null
  return (char*)((u64)t->data + t->byte_offset);
}
inline bool is_number(const Any& a) { return a.type == 3 || a.type == 1 || a.type == 2; }
inline bool is_integer(const Any& a) { return a.type == 1 || a.type == 2; }
// By bits: holds under any floating-point flags that the kernel may be compiled with.
inline bool is_finite(float v) { return (__builtin_bit_cast(u32, v) & 0x7f800000u) != 0x7f800000u; }
inline bool is_infinite(double v) {
  return (__builtin_bit_cast(u64, v) & 0x7fffffffffffffffull) == 0x7ff0000000000000ull;
}
inline bool on_host(const DlTensor* t) { return t->device_type == 1 || t->device_type == 3; }

// Arithmetic of contracts. `bad` collects overflow and division by zero: such a value satisfies nothing.
inline i64 add(i64 a, i64 b, bool& bad) {
  i64 r;
  bad |= __builtin_add_overflow(a, b, &r);
  return r;
}
inline i64 sub(i64 a, i64 b, bool& bad) {
  i64 r;
  bad |= __builtin_sub_overflow(a, b, &r);
  return r;
}
inline i64 mul(i64 a, i64 b, bool& bad) {
  i64 r;
  bad |= __builtin_mul_overflow(a, b, &r);
  return r;
}
inline i64 floor_div(i64 a, i64 b, bool& bad) {
  if (b == 0 || (b == -1 && a == -__INT64_MAX__ - 1)) { bad = true; return 0; }
  return a / b - (a % b != 0 && (a < 0) != (b < 0));
}
inline i64 floor_mod(i64 a, i64 b, bool& bad) {
  if (b == 0) { bad = true; return 0; }
  if (b == -1) return 0;
  i64 r = a % b;
  return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}

inline i64 min(i64 a, i64 b) { return a < b ? a : b; }
inline i64 max(i64 a, i64 b) { return a < b ? b : a; }

// How far, in elements, a tensor reaches below and above its first element.
struct Span {
  i64 lo = 0, hi = 0;
  void dim(i64 extent, i64 stride, bool& bad) {
    i64 reach = mul(extent - 1, stride, bad);
    (reach < 0 ? lo : hi) = add(reach < 0 ? lo : hi, reach, bad);
  }
};
struct Bytes {
  u64 lo = 0, hi = 0;
  bool meets(const Bytes& other) const { return lo < other.hi && other.lo < hi; }
};

// lo <= v < hi; InRangeOr also admits one marker value outside.
struct InRange {
  i64 lo, hi;
  bool operator()(i64 v) const { return (v >= lo) & (v < hi); }
};
struct InRangeOr {
  i64 lo, hi, except;
  bool operator()(i64 v) const { return ((v >= lo) & (v < hi)) | (v == except); }
};
template <class T, class Admits>
inline bool all_admitted(const T* p, i64 n, i64 stride, Admits admits) {  // no early exit: vectorises
  bool all = true;
  if (stride == 1) {
    for (i64 i = 0; i < n; ++i) all &= admits(p[i]);
  } else {
    for (i64 i = 0; i < n; ++i) all &= admits(p[i * stride]);
  }
  return all;
}
template <class T, class Admits>
inline i64 first_refused(const T* p, i64 n, i64 stride, Admits admits) {
  i64 i = 0;
  while (i < n && admits(p[i * stride])) ++i;
  return i;
}
template <class T>
inline i64 first_decrease(const T* p, i64 n, i64 stride) {  // n: none
  for (i64 i = 1; i < n; ++i)
    if (p[i * stride] < p[(i - 1) * stride]) return i;
  return n;
}
)RT";

constexpr const char* kGeometry = R"RT(
// ---- geometry of unusual layouts: off the hot path ---------------------------------------------------------------
struct Layout {  // bytes; extents of 1 left out
  int rank = 0;
  i64 extent[8], stride[8];
  i64 element = 1;
  void dim(i64 n, i64 stride_bytes) {
    if (n <= 1) return;
    extent[rank] = n;
    stride[rank++] = stride_bytes;
  }
};

// Whether two elements of one tensor may share bytes: sorted by stride, each must step over all that is below it.
__attribute__((cold, noinline)) bool overlaps_itself(Layout t) {
  i64 reach = t.element;
  for (int done = 0; done < t.rank; ++done) {
    int low = done;
    for (int i = done + 1; i < t.rank; ++i)
      if (t.stride[i] < t.stride[low]) low = i;
    i64 n = t.extent[low], s = t.stride[low];
    t.extent[low] = t.extent[done];
    t.stride[low] = t.stride[done];
    if (s < reach) return true;
    reach += (n - 1) * s;
  }
  return false;
}

// Interleaved slices of one buffer, such as the q and k columns of a fused projection: their byte ranges meet, but
// modulo the common row pitch they lie side by side.
__attribute__((cold, noinline)) bool lie_side_by_side(const Layout& a, u64 lo_a, const Layout& b, u64 lo_b) {
  for (int c = 0; c < a.rank; ++c) {
    i64 pitch = a.stride[c], width_a = a.element, width_b = b.element;
    bool usable = pitch > 0;
    for (int i = 0; usable && i < a.rank; ++i) {
      if (a.stride[i] < 0) usable = false;
      else if (a.stride[i] < pitch) width_a += (a.extent[i] - 1) * a.stride[i];
      else usable = a.stride[i] % pitch == 0;
    }
    for (int i = 0; usable && i < b.rank; ++i) {
      if (b.stride[i] < 0) usable = false;
      else if (b.stride[i] < pitch) width_b += (b.extent[i] - 1) * b.stride[i];
      else usable = b.stride[i] % pitch == 0;
    }
    if (!usable) continue;
    i64 apart = (i64)(lo_b >= lo_a ? (lo_b - lo_a) % (u64)pitch
                                   : ((u64)pitch - (lo_a - lo_b) % (u64)pitch) % (u64)pitch);
    if (apart >= width_a && apart + width_b <= pitch) return true;
  }
  return false;
}
)RT";

constexpr const char* kColdHalf = R"RT(
// ---- errors: formatted only after a violation --------------------------------------------------------------------
struct Site {  // patterns: {i0} integer, {f0} double, {t0} dtype, {k0} kind, {s0} shape of a tensor, {p0} address
  const char *code, *kind, *argument, *message, *found, *expected, *when, *fix;
};
struct Error {  // RtError of runtime/ffi_abi.h
  const char *code, *kind, *subject, *message, *argument, *found, *expected, *when, *fix, *text;
};
struct HostApi {  // RtHostApi of runtime/ffi_abi.h
  u64 magic;
  void (*error)(const Error*);
  void* (*workspace)(i64 bytes);
  void* (*stream)(i32 device_id);
};
inline const HostApi* host_api(void* handle) {
  const HostApi* api = (const HostApi*)handle;
  return api && api->magic == 0x3230495041544f52ull ? api : nullptr;
}

__thread char last_error[2048];

struct Out {
  char* p;
  char* end;
  void put(char c) {
    if (p < end) *p++ = c;
    *p = 0;
  }
  void put(const char* s) {
    while (*s) put(*s++);
  }
  void put(i64 v) {
    char digits[24];
    snprintf(digits, sizeof digits, "%lld", (long long)v);
    put(digits);
  }
  void put_dtype(u32 d) {
    u32 code = d & 255, bits = (d >> 8) & 255, lanes = d >> 16;
    const char* stem = code == 0 ? "i" : code == 1 ? "u" : code == 2 ? "f" : code == 4 ? "bf" : nullptr;
    if (code == 6 && bits == 8) put("bool");
    else if (code == 10) put("f8e4m3");
    else if (code == 12) put("f8e5m2");
    else if (stem) { put(stem); put((i64)bits); }
    else { put("DLPack dtype code "); put((i64)code); put(", "); put((i64)bits); put(" bits"); }
    if (lanes != 1) { put(" with "); put((i64)lanes); put(" lanes"); }
  }
  void put_kind(i64 type) {
    put(type == 0 ? "None" : type == 1 ? "an integer" : type == 2 ? "a bool" : type == 3 ? "a float"
        : type == 7 || type == 70 ? "a tensor" : type == 8 || type == 11 || type == 65 ? "a string"
        : type == 71 ? "an array" : "an object");
    if (type < 0 || type > 70) { put(" (type index "); put(type); put(")"); }
  }
  void put_shape(const DlTensor* t) {
    put('[');
    for (i32 i = 0; i < t->ndim && i < 9; ++i) {
      if (i) put(", ");
      if (i == 8) put("...");
      else put(t->shape[i]);
    }
    put(']');
  }
  void pattern(const char* s, const i64* v) {
    for (; *s; ++s) {
      if (s[0] != '{' || !s[1] || s[2] < '0' || s[2] > '7' || s[3] != '}') { put(*s); continue; }
      i64 value = v[s[2] - '0'];
      if (s[1] == 'i') put(value);
      if (s[1] == 't') put_dtype((u32)value);
      if (s[1] == 'k') put_kind(value);
      if (s[1] == 's') put_shape((const DlTensor*)value);
      char text[40];
      if (s[1] == 'f') { snprintf(text, sizeof text, "%.9g", __builtin_bit_cast(double, value)); put(text); }
      if (s[1] == 'p') { snprintf(text, sizeof text, "0x%llx", (unsigned long long)value); put(text); }
      s += 3;
    }
  }
};

// Structured to callers that know us, else to TVM-FFI when it is in the process; the text is kept in any case.
__attribute__((cold, noinline)) int pass_on(void* handle, const Error& error) {
  if (const HostApi* api = host_api(handle)) {
    api->error(&error);
    return -1;
  }
  // Resolved at each error: TVM-FFI may be loaded after this library, and this path is slow anyway.
  typedef void (*SetRaised)(const char* kind, const char* message);
  SetRaised set_raised = (SetRaised)dlsym(nullptr, "TVMFFIErrorSetRaisedFromCStr");
  if (!set_raised)
    if (void* library = dlopen("libtvm_ffi.so", 4 | 1))  // RTLD_NOLOAD | RTLD_LAZY
      set_raised = (SetRaised)dlsym(library, "TVMFFIErrorSetRaisedFromCStr");
  if (set_raised) set_raised(error.kind, error.text);
  return -1;
}

__attribute__((cold, noinline)) int raise(void* handle, const char* subject, const Site& site, const i64* values) {
  char found[640], expected[640], when[640];
  found[0] = expected[0] = when[0] = 0;
  Out{found, found + sizeof found - 1}.pattern(site.found, values);
  Out{expected, expected + sizeof expected - 1}.pattern(site.expected, values);
  Out{when, when + sizeof when - 1}.pattern(site.when, values);

  Out text{last_error, last_error + sizeof last_error - 1};
  text.put("error["); text.put(site.code); text.put("]: ");
  text.put(subject); text.put(": "); text.put(site.message);
  const char* labels[] = {"\n  argument:   ", "\n  found:      ", "\n  expected:   ", "\n  when:       ", "\n  fix:        "};
  const char* parts[] = {site.argument, found, expected, when, site.fix};
  for (int i = 0; i < 5; ++i)
    if (*parts[i]) { text.put(labels[i]); text.put(parts[i]); }

  Error error = {site.code, site.kind, subject, site.message, site.argument, found, expected, when, site.fix, last_error};
  return pass_on(handle, error);
}

// ---- workspace ---------------------------------------------------------------------------------------------------
// Foreign callers: one block kept between calls; a second thread that comes meanwhile allocates its own.
struct Block {
  i64 bytes;
};
Block* kept_block;
__attribute__((destructor)) void free_kept_block() { free(kept_block); }  // when the library is unloaded

inline char* take_workspace(void* handle, i64 bytes, Block*& block) {
  if (const HostApi* api = host_api(handle)) return (char*)api->workspace(bytes);
  block = __atomic_exchange_n(&kept_block, nullptr, __ATOMIC_ACQ_REL);
  if (block && block->bytes < bytes) { free(block); block = nullptr; }
  if (!block) {
    void* memory = nullptr;
    if (posix_memalign(&memory, 64, (u64)bytes + 64) != 0) return nullptr;
    block = (Block*)memory;
    block->bytes = bytes;
  }
  return (char*)block + 64;
}
inline void return_workspace(Block* block) {
  if (block) free(__atomic_exchange_n(&kept_block, block, __ATOMIC_ACQ_REL));
}

}  // namespace rth
}  // namespace
)RT";

constexpr const char* kRepeats = R"RT(
namespace {
namespace rth {
// Position of the first element that stood before, n: none; `except` may stand any number of times. A list that rises
// is seen at a glance; a short one is compared pair by pair; of a long one the positions go into a table.
template <class T>
__attribute__((noinline)) i64 first_repeat(const T* p, i64 n, i64 stride, i64 except) {
  bool rises = true, any = false;
  i64 last = 0;
  for (i64 i = 0; i < n; ++i) {
    const i64 v = p[i * stride];
    if (v == except) continue;
    rises &= !any || v > last;
    any = true;
    last = v;
  }
  if (rises) return n;
  i64 slots = 4;
  while (slots < 2 * n) slots *= 2;
  void* memory = nullptr;
  if (n > 64 && posix_memalign(&memory, 64, (u64)slots * sizeof(i64)) != 0) memory = nullptr;
  i64* const table = (i64*)memory;  // position + 1; 0: free
  if (table) __builtin_memset(table, 0, (u64)slots * sizeof(i64));
  i64 repeat = n;
  for (i64 i = 0; i < n && repeat == n; ++i) {
    const i64 v = p[i * stride];
    if (v == except) continue;
    if (!table) {
      for (i64 j = 0; j < i; ++j)
        if ((i64)p[j * stride] == v) { repeat = i; break; }
      continue;
    }
    u64 at = ((u64)v * 0x9e3779b97f4a7c15ull >> 20) & (u64)(slots - 1);
    for (; table[at]; at = (at + 1) & (u64)(slots - 1))
      if ((i64)p[(table[at] - 1) * stride] == v) { repeat = i; break; }
    if (repeat == n) table[at] = i + 1;
  }
  free(memory);
  return repeat;
}
}  // namespace rth
}  // namespace
)RT";

constexpr const char* kGpu = R"RT(
// ---- GPU ---------------------------------------------------------------------------------------------------------
namespace {
namespace rth {

struct GpuCall {  // RtGpuCall of runtime/ffi_abi.h
  i32 variant, device_id;
  void* stream;
  const u32* grids;
  void* const* tensors;
  const i64* const* shapes;
  const i64* ints;
  const float* floats;
  const i64* workspace_bytes;
};
struct GpuLauncher {  // RtGpuLauncher
  void* kernel;
  const Error* (*launch)(void* kernel, const GpuCall* call);
  i32 (*multiprocessors)(void* kernel, i32 device_id);
};

GpuLauncher gpu;  // bound once, after loading

// The caller's stream: ours to tell, else TVM-FFI's for this thread, else the legacy default stream.
inline void* stream_of(void* handle, i32 device_id) {
  if (const HostApi* api = host_api(handle)) return api->stream(device_id);
  typedef void* (*GetStream)(i32 device_type, i32 device_id);
  static GetStream get_stream;
  if (!get_stream) get_stream = (GetStream)dlsym(nullptr, "TVMFFIEnvGetStream");
  if (!get_stream)
    if (void* library = dlopen("libtvm_ffi.so", 4 | 1))  // RTLD_NOLOAD | RTLD_LAZY
      get_stream = (GetStream)dlsym(library, "TVMFFIEnvGetStream");
  return get_stream ? get_stream(2, device_id) : nullptr;
}

inline bool aligned(const void* data, i64 bytes) { return (u64)data % (u64)bytes == 0; }
// Of a dimension that is walked: the stride of an extent of 1 is never used. The copy engine walks
// forwards only.
inline bool steps_aligned(i64 extent, i64 stride, i64 element, i64 bytes) {
  return extent <= 1 || (stride > 0 && stride * element % bytes == 0);
}
inline u32 grid_extent(i64 blocks, bool& bad) {
  bad |= blocks < 0 || blocks > 0x7fffffff;
  return (u32)blocks;
}

}  // namespace rth
}  // namespace
)RT";

}  // namespace

const std::string& distinct_prelude() {
  static const std::string text = kRepeats;
  return text;
}

const std::string& gpu_prelude() {
  static const std::string text = kGpu;
  return text;
}

const std::string& launcher_prelude() {
  static const std::string text = std::string(kHotHalf) + kGeometry + kColdHalf;
  return text;
}

}  // namespace rooftile::host
