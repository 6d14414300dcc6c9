#include "server/source/tar/number_text.h"

#include <charconv>
#include <cstring>
#include <system_error>

#include "absl/strings/charconv.h"
#include "absl/strings/str_cat.h"
#include "server/base/error.h"
#include "server/base/record_name.h"
#include "server/source/records/value_rules.h"

namespace bulkhead {
namespace {

constexpr absl::string_view kBetweenNumbers = " ,\t\r\n";
// So much of a text that is no number is shown.
constexpr size_t kShownBytes = 40;

absl::Status NoNumber(absl::string_view text, absl::string_view wanted) {
  return SampleError(reason::kWrongDType,
                     absl::StrCat("it holds `", Printable(text.substr(0, kShownBytes)),
                                  text.size() > kShownBytes ? "…" : "", "`, which is no ", wanted));
}

template <typename Float>
absl::Status ParseFloat(absl::string_view text, Float& number) {
  const absl::from_chars_result result =
      absl::from_chars(text.data(), text.data() + text.size(), number);
  // What is out of range has become infinite, or zero.
  const bool parsed = result.ec == std::errc() || result.ec == std::errc::result_out_of_range;
  if (parsed && result.ptr == text.data() + text.size()) return absl::OkStatus();
  return NoNumber(text, "number");
}

// The next number of `text`, which is taken away; empty at the end.
absl::string_view TakeWord(absl::string_view& text) {
  const size_t begin = text.find_first_not_of(kBetweenNumbers);
  if (begin == absl::string_view::npos) return {};
  text.remove_prefix(begin);
  const absl::string_view word = text.substr(0, text.find_first_of(kBetweenNumbers));
  text.remove_prefix(word.size());
  return word;
}

template <typename Number>
absl::Status ReadWords(absl::string_view text, const FeatureSignature& signature,
                       ByteBuffer& buffer, FeatureValue& value) {
  uint64_t count = 0;
  for (absl::string_view rest = text; !TakeWord(rest).empty();) ++count;
  BULKHEAD_ASSIGN_OR_RETURN(const uint64_t rows,
                            CountRows(count, RowElements(signature), signature));
  char* out = ReserveValue(buffer, count * sizeof(Number), rows, value);
  for (uint64_t i = 0; i < count; ++i, out += sizeof(Number)) {
    Number number{};
    BULKHEAD_RETURN_IF_ERROR(ParseNumber(TakeWord(text), number));
    std::memcpy(out, &number, sizeof(Number));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status ParseNumber(absl::string_view text, int64_t& number) {
  const std::from_chars_result result =
      std::from_chars(text.data(), text.data() + text.size(), number);
  if (result.ec == std::errc() && result.ptr == text.data() + text.size()) return absl::OkStatus();
  return NoNumber(
      text, "integer of 64 bits; declare it as float or bytes, or write the number of its class");
}

absl::Status ParseNumber(absl::string_view text, float& number) { return ParseFloat(text, number); }

absl::Status ParseNumber(absl::string_view text, double& number) {
  return ParseFloat(text, number);
}

absl::Status ReadNumberText(absl::string_view text, const FeatureSignature& signature,
                            ByteBuffer& buffer, FeatureValue& value) {
  return signature.dtype == v1::DTYPE_INT64 ? ReadWords<int64_t>(text, signature, buffer, value)
                                            : ReadWords<float>(text, signature, buffer, value);
}

}  // namespace bulkhead
