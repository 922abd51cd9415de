// The collected real traces parse with exactly the counts, spans and shares of their README.
//
// The traces are not part of the repository: they lie in a folder beside it, or where EBB_TRACES
// says. Where they are absent the test is skipped.
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "env/trace/trace_profile.h"
#include "env/trace/trace_source.h"
#include "fmt/format.h"
#include "gtest/gtest.h"

namespace ebb::env {
namespace {

constexpr uint64_t kBlocksPerMib = 256;

// The folder, or empty. Looked for beside the repository and beside each folder above it.
std::string TracesFolder() {
  namespace fs = std::filesystem;
  if (const char* named = std::getenv("EBB_TRACES"); named != nullptr) return named;
  for (fs::path at = fs::path(EBB_SOURCE_DIR); at != at.root_path(); at = at.parent_path()) {
    const fs::path candidate = at.parent_path() / "shared" / "traces";
    if (fs::exists(candidate / "README.md")) return candidate.string();
  }
  return {};
}

std::string Trim(std::string text) {
  while (!text.empty() && text.front() == ' ') text.erase(0, 1);
  while (!text.empty() && text.back() == ' ') text.pop_back();
  return text;
}

std::vector<std::string> Cells(const std::string& row) {
  std::vector<std::string> cells;
  for (size_t begin = 1; begin < row.size();) {
    const size_t end = std::min(row.find('|', begin), row.size());
    cells.push_back(Trim(row.substr(begin, end - begin)));
    begin = end + 1;
  }
  return cells;
}

struct Expectation {
  std::string file;
  std::string format;
  std::map<std::string, std::string> figures;  // by the table's titles
};

std::vector<Expectation> ReadTable(const std::string& folder) {
  std::ifstream readme(folder + "/README.md");
  std::vector<std::string> titles;
  std::vector<Expectation> table;
  for (std::string line; std::getline(readme, line);) {
    if (line.starts_with("| file")) titles = Cells(line);
    if (line.starts_with("| ") && !line.starts_with("| file")) {
      const std::vector<std::string> cells = Cells(line);
      Expectation row{.file = folder + "/" + cells[0] + ".zst", .format = {}, .figures = {}};
      for (size_t i = 0; i < cells.size(); ++i) row.figures[titles[i]] = cells[i];
      table.push_back(row);
    }
    // "- **FILE.zst** (...) format `NAME`. ..."
    const size_t mark = line.find(") format `");
    if (!line.starts_with("- **") || mark == line.npos) continue;
    const std::string file = folder + "/" + line.substr(4, line.find("**", 4) - 4);
    const size_t begin = mark + 10;
    for (Expectation& row : table) {
      if (row.file == file) row.format = line.substr(begin, line.find('`', begin) - begin);
    }
  }
  return table;
}

// As the README's writer printed 100 * part / whole: without the last bits that dividing first
// and multiplying then leaves behind.
std::string Percent(double share) {
  const double percent = std::strtod(fmt::format("{:.12g}", 100 * share).c_str(), nullptr);
  return fmt::format("{:.1f}", percent);
}

// `value` printed with as many decimals as the README has.
std::string LikeText(double value, const std::string& wanted) {
  const size_t point = wanted.find('.');
  const size_t decimals = point == wanted.npos ? 0 : wanted.size() - point - 1;
  return fmt::format("{:.{}f}", value, decimals);
}

std::string TopSizes(const TraceProfile& profile) {
  std::string text;
  for (const auto& [bytes, share] : profile.top_sizes) {
    text += fmt::format("{}{}:{:.0f}%", text.empty() ? "" : " ", bytes, 100 * share);
  }
  return text;
}

const std::string& Wanted(const Expectation& row, const std::string& title) {
  return row.figures.at(title);
}

bool Known(const std::string& figure) { return figure != "None" && figure != "-"; }

void ExpectTheFigures(const Expectation& row, const TraceProfile& profile,
                      const TraceCounts& counts) {
  EXPECT_EQ(std::to_string(profile.reads + profile.writes), Wanted(row, "n"));
  if (const std::string& span = Wanted(row, "span s"); Known(span)) {
    EXPECT_EQ(LikeText(profile.span_s.value_or(-1), span), span);
    EXPECT_EQ(LikeText(profile.mean_iops.value_or(-1), Wanted(row, "mean IOPS")),
              Wanted(row, "mean IOPS"));
    EXPECT_EQ(std::to_string(profile.bursts[2].requests_max), Wanted(row, "peak 1 s"));
    EXPECT_EQ(LikeText(profile.PeakOverMean().value_or(-1), Wanted(row, "peak/mean")),
              Wanted(row, "peak/mean"));
  }
  if (Known(Wanted(row, "read %"))) {
    EXPECT_EQ(Percent(profile.read_share.value_or(-1)), Wanted(row, "read %"));
    EXPECT_EQ(Percent(profile.rewrite_share.value_or(-1)), Wanted(row, "write rewrite %"));
  } else {
    EXPECT_FALSE(profile.read_share.has_value());
  }
  const auto& sizes = profile.bytes_p50_p90_p99;
  EXPECT_EQ(fmt::format("{}/{}/{}", sizes[0], sizes[1], sizes[2]), Wanted(row, "p50/p90/p99 B"));
  EXPECT_EQ(TopSizes(profile), Wanted(row, "top sizes"));
  EXPECT_TRUE(profile.blocks_exact);
  EXPECT_EQ(fmt::format("{:.1f} ({:.0f})", profile.footprint_blocks / kBlocksPerMib,
                        profile.footprint_blocks),
            Wanted(row, "foot MiB (uniq 4K)"));
  EXPECT_EQ(Percent(profile.reuse_share), Wanted(row, "4K reuse %"));
  EXPECT_EQ(Percent(profile.sequential_share), Wanted(row, "seq %"));
  EXPECT_EQ(Percent(profile.unaligned_share), Wanted(row, "not 4K aligned %"));
  EXPECT_EQ(std::to_string(profile.devices), Wanted(row, "devs"));
  EXPECT_EQ(std::to_string(counts.back_steps), Wanted(row, "back-steps"));
  // What the README calls bad are blkparse's lines that are no events, and rightly so.
  const bool blkparse = row.format.starts_with("blkparse");
  EXPECT_EQ(std::to_string(counts.broken + (blkparse ? counts.messages : 0)),
            Wanted(row, "bad lines"));
  EXPECT_EQ(counts.broken, 0U);
}

TEST(SharedTracesTest, EveryFileHasTheFiguresOfTheReadme) {
  const std::string folder = TracesFolder();
  if (folder.empty()) GTEST_SKIP() << "the collected traces are not here (EBB_TRACES)";
  const std::vector<Expectation> table = ReadTable(folder);
  ASSERT_GT(table.size(), 20U);

  for (const Expectation& row : table) {
    SCOPED_TRACE(row.file);
    auto source = OpenTrace(row.file, row.format);
    ASSERT_TRUE(source.ok()) << source.status();
    const auto profile = ProfileTrace(**source);
    ASSERT_TRUE(profile.ok()) << profile.status();
    ExpectTheFigures(row, *profile, (*source)->counts());
  }
}

// "Hash-carrying files: FILE: N 4K pages written, M distinct contents (...); FILE: ..."
TEST(SharedTracesTest, ContentsAreAsDistinctAsTheReadmeSays) {
  const std::string folder = TracesFolder();
  if (folder.empty()) GTEST_SKIP() << "the collected traces are not here (EBB_TRACES)";
  std::ifstream readme(folder + "/README.md");
  size_t files = 0;
  for (std::string line; std::getline(readme, line);) {
    if (!line.starts_with("Hash-carrying files: ")) continue;
    for (size_t at = line.find(": ") + 2; at != std::string::npos + 2;
         at = line.find("; ", at) + 2) {
      const std::string name = line.substr(at, line.find(':', at) - at);
      SCOPED_TRACE(name);
      const size_t figures = at + name.size() + 2;
      const size_t distinct = line.find("written, ", figures) + 9;
      auto source = OpenTrace(folder + "/" + name + ".zst", "fiu");
      ASSERT_TRUE(source.ok()) << source.status();
      const auto profile = ProfileTrace(**source);
      ASSERT_TRUE(profile.ok()) << profile.status();
      EXPECT_EQ(profile->content_blocks, std::stoull(line.substr(figures)));
      EXPECT_EQ(profile->distinct_contents, std::stod(line.substr(distinct)));
      ++files;
    }
  }
  EXPECT_EQ(files, 2U);
}

TEST(SharedTracesTest, FlushTimesAreOneFlushALine) {
  const std::string folder = TracesFolder();
  if (folder.empty()) GTEST_SKIP() << "the collected traces are not here (EBB_TRACES)";
  auto source = OpenTrace(folder + "/rec_ext4_dedup_flushes.txt.zst", "flushes");
  ASSERT_TRUE(source.ok()) << source.status();

  const auto profile = ProfileTrace(**source);

  ASSERT_TRUE(profile.ok()) << profile.status();
  EXPECT_EQ(profile->flushes, 4873U);  // as ../shared/trace-formats.md says
  EXPECT_EQ((*source)->counts().back_steps, 0U);
}

}  // namespace
}  // namespace ebb::env
