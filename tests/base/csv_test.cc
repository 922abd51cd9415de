#include "base/csv.h"

#include <gtest/gtest.h>

namespace ebb {
namespace {

TEST(CsvTest, QuotesWhatRfc4180Quotes) {
  EXPECT_EQ(CsvCell(""), "");
  EXPECT_EQ(CsvCell("plain text"), "plain text");
  EXPECT_EQ(CsvCell("a,b"), "\"a,b\"");
  EXPECT_EQ(CsvCell("he said \"no\""), "\"he said \"\"no\"\"\"");
  EXPECT_EQ(CsvCell("two\nlines"), "\"two\nlines\"");
  EXPECT_EQ(CsvCell("two\r\nlines"), "\"two\r\nlines\"");
}

TEST(CsvTest, ASpreadsheetCalculatesNothing) {
  EXPECT_EQ(CsvCell("=1+1"), "'=1+1");
  EXPECT_EQ(CsvCell("=HYPERLINK(\"http://x\",\"y\")"),
            "\"'=HYPERLINK(\"\"http://x\"\",\"\"y\"\")\"");
  EXPECT_EQ(CsvCell("@SUM(A1)"), "'@SUM(A1)");
  EXPECT_EQ(CsvCell("+cmd|' /C calc'!A0"), "'+cmd|' /C calc'!A0");
  EXPECT_EQ(CsvCell("-A1"), "'-A1");
  EXPECT_EQ(CsvCell("\t=1"), "'\t=1");
  EXPECT_EQ(CsvCell("\r=1"), "\"'\r=1\"");
  EXPECT_EQ(CsvCell("a=1"), "a=1");
}

TEST(CsvTest, NumbersStayNumbers) {
  for (const char* number : {"-0.031", "+8.1 %", "-1e-05", "12", "-7"}) {
    EXPECT_EQ(CsvCell(number), number);
  }
}

}  // namespace
}  // namespace ebb
