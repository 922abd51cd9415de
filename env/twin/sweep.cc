#include "env/twin/sweep.h"

#include <atomic>
#include <mutex>
#include <thread>

#include "base/cpu_time.h"
#include "env/twin/sobol.h"
#include "env/twin/twin_environment.h"

namespace ebb::twin {
SweepResult RunSetting(const SimulatorConfig& config, const env::Setting& setting,
                       const RequestStream& load, const RunLength& length) {
  const double begin = ThreadCpuSeconds();
  SweepResult result{.setting = setting, .status = {}, .window = {}};
  SimulatorConfig one = config;
  one.setting = ToStorageSetting(setting);
  auto simulator = Simulator::Make(one, load);
  result.status = simulator.status();
  if (simulator.ok()) {
    (*simulator)->WarmUp(length.warm_up_passes, length.warm_up_share);
    if (length.settle_seconds > 0) (*simulator)->RunWindow(length.settle_seconds);
    result.window = (*simulator)->RunWindow(length.measure_seconds);
  }
  result.cpu_seconds = ThreadCpuSeconds() - begin;
  return result;
}

std::vector<SweepResult> RunSweep(const SimulatorConfig& config,
                                  std::span<const env::Setting> settings, const RequestStream& load,
                                  const RunLength& length, int threads,
                                  const std::function<bool(size_t done)>& progress) {
  std::vector<SweepResult> results(settings.size());
  for (SweepResult& result : results) result.status = absl::CancelledError("not run");
  std::atomic<size_t> next{0};
  std::mutex mutex;
  size_t done = 0;
  bool stopped = false;
  const auto work = [&] {
    for (size_t i = next++; i < settings.size(); i = next++) {
      results[i] = RunSetting(config, settings[i], load, length);
      const std::lock_guard lock(mutex);
      ++done;
      if (progress && !progress(done)) stopped = true;
      if (stopped) next = settings.size();
    }
  };
  std::vector<std::thread> others;
  for (int i = 1; i < threads; ++i) others.emplace_back(work);
  work();
  for (std::thread& thread : others) thread.join();
  return results;
}

std::vector<env::Setting> SpreadSettings(const env::KnobSpace& space, const env::Setting& base,
                                         size_t count, bool all_knobs, uint64_t seed) {
  std::vector<size_t> moved;
  for (size_t i = 0; i < space.size(); ++i) {
    if (space[i].name == "scrub_mibps") continue;
    if (all_knobs || space[i].agent_owned) moved.push_back(i);
  }
  Sobol points(moved.size(), seed);
  std::vector<env::Setting> settings;
  for (size_t n = 0; n < count; ++n) {
    const std::vector<double> point = points.Next();
    env::Setting setting = base;
    for (size_t k = 0; k < moved.size(); ++k) {
      setting.values[moved[k]] = space.FromUnit(moved[k], point[k]);
    }
    settings.push_back(std::move(setting));
  }
  return settings;
}

}  // namespace ebb::twin
