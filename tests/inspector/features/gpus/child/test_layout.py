"""The order of virtual functions is read from headers."""

from pathlib import Path

from ctrace.inspector.features.gpus.child.gpu_hooks import slots_of

_BASE = """
struct TORCH_API Base {
  // virtual bool commented() const;
  virtual ~Base() = default;
  virtual bool isBuilt() const { return false; }
  virtual const Generator& getGenerator(
      [[maybe_unused]] DeviceIndex device_index = -1) const = 0;
};
"""
_DERIVED = """
struct TORCH_API Hooks : Base {
  ~Hooks() override = default;
  bool isBuilt() const override { return true; }
  virtual const std::vector<std::string>& names(DeviceIndex /*virtual int no()*/) const;
#ifdef USE_ROCM
  virtual bool onlyRocm() const { return true; }
#endif
  virtual const Generator& getGenerator(DeviceIndex i) const override;
  virtual long version() const { return 0; }
};
"""


def test_a_base_comes_first_and_an_override_keeps_its_place(tmp_path: Path) -> None:
    (tmp_path / "base.h").write_text(_BASE, encoding="utf-8")
    (tmp_path / "derived.h").write_text(_DERIVED, encoding="utf-8")
    assert slots_of(tmp_path, ("base.h", "derived.h")) == ["~", "~", "isBuilt", "getGenerator", "names", "version"]
