// SPDX-License-Identifier: Apache-2.0
// A CUDA driver on paper, for tests on machines without a GPU (stub_control.h is its other side).
//
// Device memory is host memory, copies happen at once, launches are recorded and do nothing.
// Capture behaves as the real one does where it matters: an allocation or load by a thread that is
// not in relaxed mode spoils the captures that forbid it.
#include <array>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <set>
#include <sstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/stub_driver/stub_control.h"

namespace rooftile::cuda::abi {

struct ContextImpl {
  int device = 0;
};
struct StreamImpl {
  int device = 0;
  CaptureStatus status = kCaptureNone;
  CaptureMode mode = kCaptureGlobal;
  std::thread::id owner;
  int num_captured = 0;
  uint64_t capture = 0;  // no other capture has its number
};
struct EventImpl {
  bool timed = false, recorded = false;
};
struct LibraryImpl {
  std::map<std::string, KernelImpl*> kernels;
};
struct FunctionImpl {
  KernelImpl* kernel = nullptr;
};
struct KernelImpl {
  std::string name;
  std::array<FunctionImpl, 64> functions;
  std::map<std::pair<int, int>, int> attributes;  // (attribute, device)
};
struct GraphImpl {
  int num_nodes = 0;
};
struct GraphExecImpl {
  int num_nodes = 0;
};

}  // namespace rooftile::cuda::abi

namespace {

using namespace rooftile::cuda::abi;  // NOLINT: the whole file is the driver's inside
namespace stub = rooftile::stub;

constexpr int kMaxDevices = 64;
constexpr size_t kMemoryBytes = size_t{141} << 30;

struct Failure {
  uint64_t at = 0;  // the call that fails, counted from 1; 0: none
  Result error = kSuccess;
  bool and_later = false;
};
struct KernelFacts {
  int static_smem_bytes = 0, max_threads = 1024;
};

struct State {
  std::mutex mutex;
  std::vector<std::string> devices = {"9.0"};  // compute capabilities
  std::set<int> prohibited;
  std::set<std::string> without;
  int version = 13000;
  std::array<std::atomic<uint64_t>, stub::kNumEntryPoints> calls{};
  std::array<Failure, stub::kNumEntryPoints> failures{};
  std::atomic<bool> any_failure = false;
  std::atomic<bool> record = true;
  std::vector<stub::Launch> launches;
  std::map<std::string, KernelFacts> facts;
  std::vector<KernelImpl*> kernels;
  std::set<StreamImpl*> capturing;
  std::map<DevicePtr, size_t> allocated;
  size_t allocated_bytes = 0;
  std::array<ContextImpl, kMaxDevices> contexts;
};

State& state() {
  static State& all = *new State;  // outlives every user
  return all;
}

thread_local Context current_context = nullptr;
thread_local CaptureMode thread_mode = kCaptureGlobal;

constexpr std::array<const char*, stub::kNumEntryPoints> kNames = {
#define RT_NAME(field, version, parameters) #field,
    RT_CUDA_ENTRY_POINTS(RT_NAME)
#undef RT_NAME
};

// Counts a call, and says whether it is one that is to fail.
Result enter(stub::EntryPoint which) {
  State& s = state();
  const uint64_t call = s.calls[which].fetch_add(1, std::memory_order_relaxed) + 1;
  if (!s.any_failure.load(std::memory_order_relaxed)) return kSuccess;
  std::lock_guard lock(s.mutex);
  const Failure& failure = s.failures[which];
  if (failure.at == 0 || call < failure.at) return kSuccess;
  return call == failure.at || failure.and_later ? failure.error : kSuccess;
}

#define RT_ENTER(field) \
  if (const Result scripted = enter(stub::k##field); scripted != kSuccess) return scripted

// ---- scripts ---------------------------------------------------------------------------------

std::vector<std::string> split(const std::string& text, char separator) {
  std::vector<std::string> out;
  std::istringstream in(text);
  for (std::string part; std::getline(in, part, separator);)
    if (!part.empty()) out.push_back(part);
  return out;
}

void add_failure(State& s, std::string text) {
  const bool and_later = text.back() == '+';
  if (and_later) text.pop_back();
  const std::vector<std::string> parts = split(text, ':');
  for (int i = 0; i < stub::kNumEntryPoints && parts.size() == 3; ++i)
    if (parts[0] == kNames[i]) {
      s.failures[i] = {s.calls[i] + std::strtoull(parts[1].c_str(), nullptr, 10),
                       static_cast<Result>(std::atoi(parts[2].c_str())), and_later};
      s.any_failure = true;
      return;
    }
  std::fprintf(stderr, "stub driver: cannot read fail=%s\n", text.c_str());
  std::abort();
}

void run_script(const char* text) {
  State& s = state();
  std::lock_guard lock(s.mutex);
  for (const std::string& word : split(text, ' ')) {
    const size_t equals = word.find('=');
    const std::string key = word.substr(0, equals);
    const std::string value = equals == std::string::npos ? "" : word.substr(equals + 1);
    if (key == "devices") {
      s.devices = split(value, ',');
    } else if (key == "version") {
      s.version = std::atoi(value.c_str());
    } else if (key == "prohibited") {
      s.prohibited.insert(std::atoi(value.c_str()));
    } else if (key == "without") {
      s.without.insert(value);
    } else if (key == "fail") {
      add_failure(s, value);
    } else {
      std::fprintf(stderr, "stub driver: cannot read %s\n", word.c_str());
      std::abort();
    }
  }
}

void reset() {
  State& s = state();
  std::lock_guard lock(s.mutex);
  s.devices = {"9.0"};
  s.prohibited.clear();
  s.without.clear();
  s.version = 13000;
  for (auto& count : s.calls) count = 0;
  s.failures = {};
  s.any_failure = false;
  s.record = true;
  s.launches.clear();
  s.facts.clear();
}

[[gnu::constructor]] void script_of_environment() {
  if (const char* text = std::getenv("ROOFTILE_STUB_SCRIPT")) run_script(text);
}

// ---- capture ---------------------------------------------------------------------------------

// What the real driver does with a call that capture does not allow: it refuses, and the capture
// is lost.
Result unsafe_call() {
  State& s = state();
  std::lock_guard lock(s.mutex);
  Result result = kSuccess;
  if (thread_mode == kCaptureRelaxed) return result;
  for (StreamImpl* stream : s.capturing) {
    const bool mine = stream->owner == std::this_thread::get_id();
    if (stream->mode == kCaptureRelaxed || (stream->mode == kCaptureThreadLocal && !mine)) continue;
    stream->status = kCaptureLost;
    result = kCaptureUnsupported;
  }
  return result;
}

#define RT_UNSAFE_IN_CAPTURE() \
  if (const Result refused = unsafe_call(); refused != kSuccess) return refused

int device_of(Stream stream) {
  if (stream != nullptr) return stream->device;
  return current_context != nullptr ? current_context->device : -1;
}

// ---- devices ---------------------------------------------------------------------------------

Result Init(unsigned) {
  RT_ENTER(Init);
  State& s = state();
  std::lock_guard lock(s.mutex);
  for (int i = 0; i < kMaxDevices; ++i) s.contexts[i].device = i;
  return s.devices.empty() ? kNoDevice : kSuccess;
}
Result DriverGetVersion(int* version) {
  RT_ENTER(DriverGetVersion);
  *version = state().version;
  return kSuccess;
}
Result GetErrorName(Result error, const char** text) {
  static const std::map<int, const char*> names = {
      {kInvalidValue, "CUDA_ERROR_INVALID_VALUE"},
      {kOutOfMemory, "CUDA_ERROR_OUT_OF_MEMORY"},
      {kNoDevice, "CUDA_ERROR_NO_DEVICE"},
      {kSystemDriverMismatch, "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH"},
      {kIllegalAddress, "CUDA_ERROR_ILLEGAL_ADDRESS"},
      {kNoBinaryForGpu, "CUDA_ERROR_NO_BINARY_FOR_GPU"},
      {kCaptureUnsupported, "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED"},
      {kCaptureInvalidated, "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED"}};
  const auto it = names.find(error);
  if (it == names.end()) return kInvalidValue;
  *text = it->second;
  return kSuccess;
}
Result GetErrorString(Result, const char** text) {
  *text = "as the stub's script says";
  return kSuccess;
}
Result DeviceGetCount(int* count) {
  RT_ENTER(DeviceGetCount);
  *count = static_cast<int>(state().devices.size());
  return kSuccess;
}
Result DeviceGet(DeviceHandle* device, int ordinal) {
  RT_ENTER(DeviceGet);
  if (ordinal < 0 || ordinal >= static_cast<int>(state().devices.size())) return kInvalidDevice;
  *device = ordinal;
  return kSuccess;
}
Result DeviceGetName(char* name, int bytes, DeviceHandle) {
  std::snprintf(name, static_cast<size_t>(bytes), "Stub H200");
  return kSuccess;
}
Result DeviceTotalMem(size_t* bytes, DeviceHandle) {
  *bytes = kMemoryBytes;
  return kSuccess;
}
Result DeviceGetAttribute(int* value, DeviceAttribute attribute, DeviceHandle device) {
  RT_ENTER(DeviceGetAttribute);
  State& s = state();
  std::lock_guard lock(s.mutex);
  const std::string& cc = s.devices.at(static_cast<size_t>(device));
  const bool hopper = cc[0] == '9';
  switch (attribute) {
    case kAttrCcMajor:
      *value = cc[0] - '0';
      break;
    case kAttrCcMinor:
      *value = cc[2] - '0';
      break;
    case kAttrNumSms:
      *value = 132;
      break;
    case kAttrSmemPerBlockOptin:
      *value = 232448;
      break;
    case kAttrSmemPerSm:
      *value = 233472;
      break;
    case kAttrL2Bytes:
      *value = 60 << 20;
      break;
    case kAttrClockKhz:
      *value = 1980000;
      break;
    case kAttrMemoryClockKhz:
      *value = 3201000;
      break;
    case kAttrMemoryBusBits:
      *value = 6144;
      break;
    case kAttrMaxGridX:
      *value = 0x7fffffff;
      break;
    case kAttrMaxGridY:
    case kAttrMaxGridZ:
      *value = 65535;
      break;
    case kAttrComputeMode:
      *value = s.prohibited.count(device) != 0 ? kComputeModeProhibited : 0;
      break;
    case kAttrPciBus:
      *value = 0x1b + device;
      break;
    case kAttrPciDevice:
    case kAttrPciDomain:
      *value = 0;
      break;
    case kAttrClusterLaunch:
    case kAttrTensorMapAccess:
      *value = hopper ? 1 : 0;
      break;
    default:
      return kInvalidValue;
  }
  return kSuccess;
}
Result DevicePrimaryCtxRetain(Context* context, DeviceHandle device) {
  RT_ENTER(DevicePrimaryCtxRetain);
  *context = &state().contexts[static_cast<size_t>(device)];
  return kSuccess;
}
Result CtxGetCurrent(Context* context) {
  RT_ENTER(CtxGetCurrent);
  *context = current_context;
  return kSuccess;
}
Result CtxSetCurrent(Context context) {
  RT_ENTER(CtxSetCurrent);
  current_context = context;
  return kSuccess;
}
Result CtxSynchronize() {
  RT_ENTER(CtxSynchronize);
  return current_context != nullptr ? kSuccess : kInvalidContext;
}

// ---- memory ----------------------------------------------------------------------------------

Result MemGetInfo(size_t* free_bytes, size_t* total_bytes) {
  RT_ENTER(MemGetInfo);
  *free_bytes = kMemoryBytes - state().allocated_bytes;
  *total_bytes = kMemoryBytes;
  return kSuccess;
}
Result MemAlloc(DevicePtr* address, size_t bytes) {
  RT_ENTER(MemAlloc);
  RT_UNSAFE_IN_CAPTURE();
  if (current_context == nullptr) return kInvalidContext;
  State& s = state();
  std::lock_guard lock(s.mutex);
  if (bytes > kMemoryBytes - s.allocated_bytes) return kOutOfMemory;
  void* memory = nullptr;
  if (posix_memalign(&memory, 256, bytes) != 0) return kOutOfMemory;
  *address = reinterpret_cast<DevicePtr>(memory);
  s.allocated[*address] = bytes;
  s.allocated_bytes += bytes;
  return kSuccess;
}
Result MemFree(DevicePtr address) {
  RT_ENTER(MemFree);
  RT_UNSAFE_IN_CAPTURE();
  State& s = state();
  std::lock_guard lock(s.mutex);
  const auto it = s.allocated.find(address);
  if (it == s.allocated.end()) return kInvalidValue;
  s.allocated_bytes -= it->second;
  s.allocated.erase(it);
  std::free(reinterpret_cast<void*>(address));
  return kSuccess;
}
Result MemHostAlloc(void** address, size_t bytes, unsigned) {
  RT_ENTER(MemHostAlloc);
  RT_UNSAFE_IN_CAPTURE();
  return posix_memalign(address, 256, bytes) == 0 ? kSuccess : kOutOfMemory;
}
Result MemFreeHost(void* address) {
  RT_ENTER(MemFreeHost);
  RT_UNSAFE_IN_CAPTURE();
  std::free(address);
  return kSuccess;
}
Result MemcpyHtoDAsync(DevicePtr to, const void* from, size_t bytes, Stream) {
  RT_ENTER(MemcpyHtoDAsync);
  std::memcpy(reinterpret_cast<void*>(to), from, bytes);
  return kSuccess;
}
Result MemcpyDtoHAsync(void* to, DevicePtr from, size_t bytes, Stream) {
  RT_ENTER(MemcpyDtoHAsync);
  std::memcpy(to, reinterpret_cast<const void*>(from), bytes);
  return kSuccess;
}
Result MemcpyDtoDAsync(DevicePtr to, DevicePtr from, size_t bytes, Stream) {
  RT_ENTER(MemcpyDtoDAsync);
  std::memmove(reinterpret_cast<void*>(to), reinterpret_cast<const void*>(from), bytes);
  return kSuccess;
}
Result MemsetD8Async(DevicePtr to, unsigned char value, size_t bytes, Stream) {
  RT_ENTER(MemsetD8Async);
  std::memset(reinterpret_cast<void*>(to), value, bytes);
  return kSuccess;
}

// ---- streams, capture, events ----------------------------------------------------------------

Result StreamCreateWithPriority(Stream* stream, unsigned, int) {
  RT_ENTER(StreamCreateWithPriority);
  if (current_context == nullptr) return kInvalidContext;
  *stream = new StreamImpl{.device = current_context->device};
  return kSuccess;
}
Result StreamDestroy(Stream stream) {
  RT_ENTER(StreamDestroy);
  State& s = state();
  std::lock_guard lock(s.mutex);
  s.capturing.erase(stream);
  delete stream;
  return kSuccess;
}
Result StreamSynchronize(Stream) {
  RT_ENTER(StreamSynchronize);
  return kSuccess;
}
Result StreamQuery(Stream) {
  RT_ENTER(StreamQuery);
  return kSuccess;
}
Result StreamWaitEvent(Stream, Event, unsigned) {
  RT_ENTER(StreamWaitEvent);
  return kSuccess;
}
Result StreamBeginCapture(Stream stream, CaptureMode mode) {
  RT_ENTER(StreamBeginCapture);
  State& s = state();
  std::lock_guard lock(s.mutex);
  static uint64_t num_captures = 0;
  *stream = {.device = stream->device,
             .status = kCaptureActive,
             .mode = mode,
             .owner = std::this_thread::get_id(),
             .capture = ++num_captures};
  s.capturing.insert(stream);
  return kSuccess;
}
Result StreamEndCapture(Stream stream, Graph* graph) {
  RT_ENTER(StreamEndCapture);
  State& s = state();
  std::lock_guard lock(s.mutex);
  s.capturing.erase(stream);
  const CaptureStatus status = std::exchange(stream->status, kCaptureNone);
  *graph = nullptr;
  if (status == kCaptureLost) return kCaptureInvalidated;
  if (status == kCaptureNone) return kInvalidValue;
  *graph = new GraphImpl{.num_nodes = stream->num_captured};
  return kSuccess;
}
Result StreamIsCapturing(Stream stream, CaptureStatus* status) {
  RT_ENTER(StreamIsCapturing);
  State& s = state();
  std::lock_guard lock(s.mutex);
  *status = stream != nullptr ? stream->status : kCaptureNone;
  return kSuccess;
}
Result StreamGetCaptureInfo(Stream stream, CaptureStatus* status, uint64_t* id, Graph*,
                            const GraphNode**, const void**, size_t*) {
  RT_ENTER(StreamGetCaptureInfo);
  State& s = state();
  std::lock_guard lock(s.mutex);
  *status = stream != nullptr ? stream->status : kCaptureNone;
  if (*status == kCaptureActive) *id = stream->capture;
  return kSuccess;
}
Result ThreadExchangeStreamCaptureMode(CaptureMode* mode) {
  RT_ENTER(ThreadExchangeStreamCaptureMode);
  std::swap(*mode, thread_mode);
  return kSuccess;
}
Result EventCreate(Event* event, unsigned flags) {
  RT_ENTER(EventCreate);
  *event = new EventImpl{.timed = (flags & kEventDisableTiming) == 0};
  return kSuccess;
}
Result EventDestroy(Event event) {
  RT_ENTER(EventDestroy);
  delete event;
  return kSuccess;
}
Result EventRecord(Event event, Stream) {
  RT_ENTER(EventRecord);
  event->recorded = true;
  return kSuccess;
}
Result EventSynchronize(Event) {
  RT_ENTER(EventSynchronize);
  return kSuccess;
}
Result EventQuery(Event) {
  RT_ENTER(EventQuery);
  return kSuccess;
}
Result EventElapsedTime(float* milliseconds, Event start, Event end) {
  RT_ENTER(EventElapsedTime);
  if (!start->timed || !end->timed || !start->recorded || !end->recorded) return kInvalidHandle;
  *milliseconds = 1.5f;
  return kSuccess;
}

// ---- kernels ---------------------------------------------------------------------------------

Result LibraryLoadData(Library* library, const void* code, int*, void**, unsigned, int*, void**,
                       unsigned) {
  RT_ENTER(LibraryLoadData);
  RT_UNSAFE_IN_CAPTURE();
  if (std::memcmp(code, "\177ELF", 4) != 0) return kInvalidImage;
  *library = new LibraryImpl;
  return kSuccess;
}
Result LibraryUnload(Library library) {
  RT_ENTER(LibraryUnload);
  delete library;
  return kSuccess;
}
// Every name is a kernel, except those that begin with "missing".
Result LibraryGetKernel(Kernel* kernel, Library library, const char* name) {
  RT_ENTER(LibraryGetKernel);
  if (std::strncmp(name, "missing", 7) == 0) return kNotFound;
  State& s = state();
  std::lock_guard lock(s.mutex);
  KernelImpl*& known = library->kernels[name];
  if (known == nullptr) {
    known = new KernelImpl;
    known->name = name;
    for (FunctionImpl& function : known->functions) function.kernel = known;
    s.kernels.push_back(known);
  }
  *kernel = known;
  return kSuccess;
}
Result KernelGetFunction(Function* function, Kernel kernel) {
  RT_ENTER(KernelGetFunction);
  RT_UNSAFE_IN_CAPTURE();
  if (current_context == nullptr) return kInvalidContext;
  *function = &kernel->functions[static_cast<size_t>(current_context->device)];
  return kSuccess;
}
Result FuncLoad(Function) {
  RT_ENTER(FuncLoad);
  RT_UNSAFE_IN_CAPTURE();
  return kSuccess;
}
Result KernelGetAttribute(int* value, FunctionAttribute attribute, Kernel kernel, DeviceHandle) {
  RT_ENTER(KernelGetAttribute);
  State& s = state();
  std::lock_guard lock(s.mutex);
  const auto it = s.facts.find(kernel->name);
  const KernelFacts facts = it != s.facts.end() ? it->second : KernelFacts{};
  *value = attribute == kFuncMaxThreadsPerBlock ? facts.max_threads
           : attribute == kFuncStaticSmemBytes  ? facts.static_smem_bytes
                                                : 0;
  return kSuccess;
}
Result KernelSetAttribute(FunctionAttribute attribute, int value, Kernel kernel,
                          DeviceHandle device) {
  RT_ENTER(KernelSetAttribute);
  State& s = state();
  std::lock_guard lock(s.mutex);
  kernel->attributes[{attribute, device}] = value;
  return kSuccess;
}

stub::Launch record_of(const LaunchConfig& config, Function function, void** parameters) {
  stub::Launch out{};
  std::snprintf(out.kernel, sizeof out.kernel, "%s", function->kernel->name.c_str());
  out.device = device_of(nullptr);
  out.grid[0] = config.grid_x, out.grid[1] = config.grid_y, out.grid[2] = config.grid_z;
  out.block[0] = config.block_x, out.block[1] = config.block_y, out.block[2] = config.block_z;
  out.cluster[0] = out.cluster[1] = out.cluster[2] = 1;
  out.dynamic_smem_bytes = config.dynamic_smem_bytes;
  out.stream = config.stream;
  for (unsigned i = 0; i < config.num_attributes; ++i) {
    const LaunchAttribute& attribute = config.attributes[i];
    if (attribute.id == kLaunchClusterDimension) {
      out.cluster[0] = attribute.value.cluster.x, out.cluster[1] = attribute.value.cluster.y;
      out.cluster[2] = attribute.value.cluster.z;
    }
    if (attribute.id == kLaunchProgrammaticSerialization)
      out.dependent_launch = attribute.value.flag != 0;
    if (attribute.id == kLaunchCooperative) out.cooperative = attribute.value.flag != 0;
  }
  if (parameters != nullptr && parameters[0] != nullptr)
    std::memcpy(&out.first_argument, parameters[0], sizeof out.first_argument);
  return out;
}

Result LaunchKernelEx(const LaunchConfig* config, Function function, void** parameters, void**) {
  RT_ENTER(LaunchKernelEx);
  if (current_context == nullptr) return kInvalidContext;
  const int device = current_context->device;
  if (device_of(config->stream) != device || function != &function->kernel->functions[device])
    return kInvalidHandle;  // a stream or a function of another context
  State& s = state();
  const bool captured = config->stream != nullptr && config->stream->status == kCaptureActive;
  if (captured) ++config->stream->num_captured;
  if (!s.record.load(std::memory_order_relaxed)) return kSuccess;
  stub::Launch launch = record_of(*config, function, parameters);
  launch.captured = captured;
  std::lock_guard lock(s.mutex);
  s.launches.push_back(launch);
  return kSuccess;
}
Result OccupancyMaxActiveClusters(int* clusters, Function, const LaunchConfig*) {
  RT_ENTER(OccupancyMaxActiveClusters);
  *clusters = 66;
  return kSuccess;
}
Result OccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, Function, int, size_t) {
  RT_ENTER(OccupancyMaxActiveBlocksPerMultiprocessor);
  *blocks = 1;
  return kSuccess;
}
// A map that shows what it was made of: the address, then sizes and box mixed.
Result TensorMapEncodeTiled(TensorMap* map, TensorMapType type, uint32_t rank, void* address,
                            const uint64_t* sizes, const uint64_t* strides_bytes,
                            const uint32_t* box, const uint32_t*, TensorMapInterleave,
                            TensorMapSwizzle swizzle, TensorMapL2, TensorMapFill) {
  RT_ENTER(TensorMapEncodeTiled);
  std::memset(map, 0, sizeof *map);
  map->opaque[0] = reinterpret_cast<uint64_t>(address);
  map->opaque[1] = static_cast<uint64_t>(type) << 32 | static_cast<uint64_t>(swizzle);
  for (uint32_t i = 0; i < rank; ++i) map->opaque[2 + i] = sizes[i] << 16 ^ box[i];
  for (uint32_t i = 0; i + 1 < rank; ++i) map->opaque[8 + i] = strides_bytes[i];
  return kSuccess;
}

// ---- graphs ----------------------------------------------------------------------------------

Result GraphInstantiateWithFlags(GraphExec* exec, Graph graph, unsigned long long) {
  RT_ENTER(GraphInstantiateWithFlags);
  *exec = new GraphExecImpl{graph->num_nodes};
  return kSuccess;
}
Result GraphExecUpdate(GraphExec exec, Graph graph, GraphExecUpdateInfo* info) {
  RT_ENTER(GraphExecUpdate);
  info->result = exec->num_nodes == graph->num_nodes ? 0 : 2;  // 2: topology changed
  return info->result == 0 ? kSuccess : kGraphExecUpdateFailure;
}
Result GraphLaunch(GraphExec, Stream) {
  RT_ENTER(GraphLaunch);
  return kSuccess;
}
Result GraphGetNodes(Graph graph, GraphNode*, size_t* count) {
  RT_ENTER(GraphGetNodes);
  *count = static_cast<size_t>(graph->num_nodes);
  return kSuccess;
}
Result GraphDestroy(Graph graph) {
  RT_ENTER(GraphDestroy);
  delete graph;
  return kSuccess;
}
Result GraphExecDestroy(GraphExec exec) {
  RT_ENTER(GraphExecDestroy);
  delete exec;
  return kSuccess;
}

// ---- control ---------------------------------------------------------------------------------

const stub::Control kControl = {
    .reset = reset,
    .script = run_script,
    .calls = [](stub::EntryPoint which) { return state().calls[which].load(); },
    .num_launches =
        [] {
          std::lock_guard lock(state().mutex);
          return state().launches.size();
        },
    .launch =
        [](size_t index) {
          std::lock_guard lock(state().mutex);
          return state().launches.at(index);
        },
    .record_launches = [](bool on) { state().record = on; },
    .describe_kernel =
        [](const char* name, int static_smem_bytes, int max_threads) {
          std::lock_guard lock(state().mutex);
          state().facts[name] = {static_smem_bytes, max_threads};
        },
    .kernel_attribute =
        [](const char* name, FunctionAttribute which, int device) {
          std::lock_guard lock(state().mutex);
          for (const KernelImpl* kernel : state().kernels)
            if (const auto it = kernel->attributes.find({which, device});
                kernel->name == name && it != kernel->attributes.end())
              return it->second;
          return -1;
        },
};

}  // namespace

extern "C" {

__attribute__((visibility("default"))) const rooftile::stub::Control* rooftile_stub_control() {
  return &kControl;
}

__attribute__((visibility("default"))) Result cuGetProcAddress_v2(const char* symbol,
                                                                  void** function, int version,
                                                                  uint64_t, int* status) {
  State& s = state();
  *function = nullptr;
  *status = 1;  // symbol not found
#define RT_LOOK_UP(field, since, parameters)                                   \
  if (std::strcmp(symbol, "cu" #field) == 0 && s.without.count(#field) == 0 && \
      version >= (since) && s.version >= (since)) {                            \
    Result(*entry) parameters = &field;                                        \
    *function = reinterpret_cast<void*>(entry);                                \
  }
  RT_CUDA_ENTRY_POINTS(RT_LOOK_UP)
#undef RT_LOOK_UP
  if (*function == nullptr) return kNotFound;
  *status = 0;
  return kSuccess;
}

}  // extern "C"
