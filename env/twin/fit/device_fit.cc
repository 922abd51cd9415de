#include "env/twin/fit/device_fit.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <type_traits>
#include <vector>

#include "base/status.h"
#include "base/units.h"
#include "fmt/format.h"

namespace ebb::twin {
namespace {

using storage::ServiceParameters;

// Keeps what the probes do not see where it was: a tenth off costs as much as a figure off by 0.1
// %.
constexpr double kInertia = 1e-4;
constexpr std::array<double, 4> kSteps = {1.5, 1.2, 1.06, 1.02};
constexpr int kRoundsMax = 12;

// Calls `visit(value)` for the parameters that are searched: no probe sees a grain.
template <typename Visitor>
void VisitSearched(ServiceParameters& parameters, const Visitor& visit) {
  storage::VisitParameters(parameters, [&](const storage::ServiceParameterInfo& info, auto& value) {
    if (info.kind != storage::ServiceParameterInfo::Kind::kGrain) visit(value);
  });
}

std::vector<double> Values(ServiceParameters parameters) {
  std::vector<double> values;
  VisitSearched(parameters, [&](auto& value) { values.push_back(static_cast<double>(value)); });
  return values;
}

ServiceParameters WithValues(ServiceParameters like, const std::vector<double>& values) {
  auto next = values.begin();
  VisitSearched(like, [&](auto& value) {
    using Number = std::remove_reference_t<decltype(value)>;
    value = std::is_integral_v<Number> ? static_cast<Number>(std::max(1.0, std::round(*next)))
                                       : static_cast<Number>(*next);
    ++next;
  });
  return like;
}

class Search {
 public:
  Search(const ProbeFigures& measured, uint64_t device_bytes, const ProbeOptions& options)
      : measured_(measured), device_bytes_(device_bytes), options_(options) {}

  ProbeFigures AnswersOf(const ServiceParameters& parameters) const {
    auto model = storage::MakeServiceModel(parameters, {.device_bytes = device_bytes_, .seed = 1});
    return model.ok() ? ProbeModel(**model, device_bytes_, options_) : ProbeFigures{};
  }

  double Loss(const ServiceParameters& parameters) const {
    const ProbeFigures answers = AnswersOf(parameters);
    double loss = 0;
    for (size_t i = 0; i < kProbeFigures; ++i) {
      if (measured_.value[i] <= 0) continue;
      if (answers.value[i] <= 0) return std::numeric_limits<double>::infinity();
      const double error = std::log(answers.value[i] / measured_.value[i]);
      // One figure that no model meets must not bend all others.
      loss += std::min(error * error, 0.5 * std::abs(error));
    }
    return loss;
  }

  // Moves one parameter after the other; returns the loss.
  double Descend(ServiceParameters& parameters) const {
    const std::vector<double> start = Values(parameters);
    std::vector<double> at = start;
    const auto whole_loss = [&](const std::vector<double>& values) {
      double inertia = 0;
      for (size_t i = 0; i < values.size(); ++i) {
        const double moved = std::log(values[i] / start[i]);
        inertia += kInertia * moved * moved;
      }
      return Loss(WithValues(parameters, values)) + inertia;
    };
    double best = whole_loss(at);
    for (const double step : kSteps) {
      bool improved = true;
      for (int round = 0; improved && round < kRoundsMax; ++round) {
        improved = false;
        for (size_t i = 0; i < at.size(); ++i) {
          for (const double factor : {step, 1 / step}) {
            std::vector<double> next = at;
            next[i] *= factor;
            const double loss = whole_loss(next);
            if (loss >= best) continue;
            best = loss;
            at = next;
            improved = true;
          }
        }
      }
    }
    parameters = WithValues(parameters, at);
    return best;
  }

 private:
  const ProbeFigures& measured_;
  const uint64_t device_bytes_;
  const ProbeOptions& options_;
};

struct Start {
  std::string name;
  ServiceParameters parameters;
  double loss = 0;
};

// The classes, as fast as the device is at small reads; the best ones first.
std::vector<Start> Starts(const Search& search, const ProbeFigures& measured) {
  std::vector<Start> starts;
  for (const std::string& name : storage::ServiceModelNames()) {
    const ServiceParameters parameters = *storage::ServiceParametersOf(name);
    const double speed = search.AnswersOf(parameters).value[0] / measured.value[0];
    for (ServiceParameters one : {parameters, storage::Faster(parameters, speed)}) {
      starts.push_back({name, one, search.Loss(one)});
    }
  }
  std::sort(starts.begin(), starts.end(),
            [](const Start& a, const Start& b) { return a.loss < b.loss; });
  return starts;
}

}  // namespace

absl::StatusOr<DeviceFit> FitDevice(const ProbeFigures& measured, uint64_t device_bytes,
                                    const ProbeOptions& options) {
  for (size_t i = 0; i < kProbeFigures; ++i) {
    const double value = measured.value[i];
    const bool needed = i < kReadProbes || options.writes;
    if (!std::isfinite(value) || value < 0 || (needed && value == 0)) {
      return absl::InvalidArgumentError(
          fmt::format("the device's answer to '{}' is {}", ProbeFigureName(i), value));
    }
  }
  const Search search(measured, device_bytes, options);
  std::vector<Start> starts = Starts(search, measured);
  constexpr size_t kTried = 3;
  starts.resize(std::min(starts.size(), kTried));
  for (Start& start : starts) start.loss = search.Descend(start.parameters);
  const auto best = std::min_element(
      starts.begin(), starts.end(), [](const Start& a, const Start& b) { return a.loss < b.loss; });
  DeviceFit fit{.parameters = best->parameters, .nearest_class = best->name};
  fit.answers = search.AnswersOf(best->parameters);
  std::vector<double> errors;
  for (size_t i = 0; i < kProbeFigures; ++i) {
    if (measured.value[i] <= 0) continue;
    errors.push_back(std::abs(fit.answers.value[i] / measured.value[i] - 1));
    if (errors.back() <= fit.error_max) continue;
    fit.error_max = errors.back();
    fit.worst_figure = ProbeFigureName(i);
  }
  std::sort(errors.begin(), errors.end());
  fit.error_median = errors[errors.size() / 2];
  return fit;
}

std::string FitTable(const ProbeFigures& measured, const DeviceFit& fit) {
  std::string text;
  for (size_t i = 0; i < kProbeFigures; ++i) {
    if (measured.value[i] <= 0) continue;
    const bool rate = ProbeFigureIsRate(i);
    const auto show = [rate](double value) {
      return rate ? fmt::format("{:.1f} MB/s", value / 1e6)
                  : FormatDurationNs(static_cast<uint64_t>(value));
    };
    text += fmt::format("{:30} {:>14} {:>14} {:>8.1f} %\n", ProbeFigureName(i),
                        show(measured.value[i]), show(fit.answers.value[i]),
                        100 * (fit.answers.value[i] / measured.value[i] - 1));
  }
  return text;
}

}  // namespace ebb::twin
