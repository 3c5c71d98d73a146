// SPDX-License-Identifier: Apache-2.0
// The stub driver for tests: loads it, opens it as the CUDA driver, reaches its control.
#pragma once

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "rooftile/runtime/cuda/device.h"
#include "rooftile/runtime/cuda/driver.h"
#include "tests/stub_driver/stub_control.h"

namespace rooftile::testing_support {

inline std::string stub_path() { return ROOFTILE_BINARY_DIR "/librooftile_stub_driver.so"; }

inline const stub::Control& stub_control(const std::string& path = stub_path()) {
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  EXPECT_NE(library, nullptr) << dlerror();
  auto get = reinterpret_cast<stub::GetControl>(dlsym(library, "rooftile_stub_control"));
  return *get();
}

// A stub of its own for one test: a driver's devices are counted once, when it is opened.
class FreshStub {
 public:
  explicit FreshStub(const std::string& script) {
    std::string pattern = testing::TempDir() + "rooftile-stub-XXXXXX";
    dir_ = mkdtemp(pattern.data());
    path_ = dir_ + "/libcuda_stub.so";
    std::filesystem::copy_file(stub_path(), path_);
    control_ = &stub_control(path_);
    control_->reset();
    control_->script(script.c_str());
  }
  ~FreshStub() {
    std::error_code ignored;
    std::filesystem::remove_all(dir_, ignored);
  }
  FreshStub(const FreshStub&) = delete;
  FreshStub& operator=(const FreshStub&) = delete;
  const std::string& path() const { return path_; }
  const stub::Control& control() const { return *control_; }

 private:
  std::string dir_, path_;
  const stub::Control* control_ = nullptr;
};

// A test on devices 0 to 3 of the shared stub, all Hopper.
class StubDriverTest : public testing::Test {
 protected:
  void SetUp() override {
    control_ = &stub_control();
    control_->reset();
    control_->script("devices=9.0,9.0,9.0,9.0");
    Result<const cuda::Driver*> opened = cuda::Driver::open(stub_path());
    ASSERT_TRUE(opened.ok()) << opened.diag().str();
    driver_ = *opened;
    ASSERT_TRUE(driver_->device(0).ok());
  }
  void TearDown() override {
    if (control_ != nullptr) control_->reset();
  }
  const cuda::Device& device(int ordinal = 0) const { return **driver_->device(ordinal); }

  const stub::Control* control_ = nullptr;
  const cuda::Driver* driver_ = nullptr;
};

}  // namespace rooftile::testing_support
