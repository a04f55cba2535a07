// A CUDA device for autograd to talk to, in a torch that was built without CUDA or on a machine without a GPU.
//
// Autograd asks two things in C++ about every tensor on a CUDA device, even a fake one: its device guard, for streams
// (c10/core/impl/DeviceGuardImplInterface.h), and the CUDA hooks, for what the library was built with
// (aten/src/ATen/detail/CUDAHooksInterface.h). Where neither is there, the process aborts. Both are answered here, and
// only while `ctrace_show_device(1)` holds: outside of that the program sees a torch without CUDA.

#include <ATen/detail/CUDAHooksInterface.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>

#include <atomic>

namespace {

std::atomic<bool> shown{false};

struct Guard final : public c10::impl::NoOpDeviceGuardImpl<c10::DeviceType::CUDA> {
  c10::Device exchangeDevice(c10::Device) const override {
    return getDevice();
  }
  c10::Device getDevice() const override {
    return c10::Device(c10::DeviceType::CUDA, 0);
  }
  c10::Stream getStream(c10::Device) const noexcept override {
    return stream();
  }
  c10::Stream getDefaultStream(c10::Device) const override {
    return stream();
  }
  c10::Stream exchangeStream(c10::Stream) const noexcept override {
    return stream();
  }
  c10::DeviceIndex deviceCount() const noexcept override {
    return shown ? 1 : 0;
  }

 private:
  c10::Stream stream() const {
    return c10::Stream(c10::Stream::DEFAULT, getDevice());
  }
};

// The registry finds the hooks by the name of their class.
struct CUDAHooks final : public at::CUDAHooksInterface {
  explicit CUDAHooks(at::CUDAHooksArgs) {}

  void init() const override {}
  bool isBuilt() const override {
    return shown;
  }
  bool isAvailable() const override {
    return shown;
  }
  bool hasCUDA() const override {
    return shown;
  }
  bool hasCuDNN() const override {
    return shown;
  }
  bool hasCuBLASLt() const override {
    return shown;
  }
  bool compiledWithCuDNN() const override {
    return shown;
  }
  bool supportsDilatedConvolutionWithCuDNN() const override {
    return true;
  }
  bool supportsDepthwiseConvolutionWithCuDNN() const override {
    return true;
  }
  bool supportsBFloat16ConvolutionWithCuDNNv8() const override {
    return true;
  }
  long versionCuDNN() const override {
    return 91900;
  }
  long versionRuntimeCuDNN() const override {
    return 91900;
  }
  double batchnormMinEpsilonCuDNN() const override {
    return 1e-5;
  }
  bool hasPrimaryContext(c10::DeviceIndex) const override {
    return shown;
  }
  c10::DeviceIndex current_device() const override {
    return 0;
  }
  int getNumGPUs() const override {
    return shown ? 1 : 0;
  }
  c10::DeviceIndex deviceCount() const override {
    return shown ? 1 : 0;
  }
  c10::DeviceIndex getCurrentDevice() const override {
    return 0;
  }
  void setCurrentDevice(c10::DeviceIndex) const override {}
  c10::DeviceIndex exchangeDevice(c10::DeviceIndex) const override {
    return 0;
  }
  c10::DeviceIndex maybeExchangeDevice(c10::DeviceIndex) const override {
    return 0;
  }
};

} // namespace

namespace at {
REGISTER_CUDA_HOOKS(CUDAHooks)
} // namespace at

namespace c10::impl {
C10_REGISTER_GUARD_IMPL(CUDA, Guard)
} // namespace c10::impl

extern "C" void ctrace_show_device(int show) {
  shown = show != 0;
}
