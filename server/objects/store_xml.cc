#include "server/objects/store_xml.h"

#include <expat.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"

namespace bulkhead {
namespace {

constexpr size_t kMostDepth = 16;
constexpr size_t kMostTextBytes = size_t{16} << 10;

using XmlPath = std::vector<std::string>;

// Walks through a document: `on_text(path, text)` is called at the end of each element, with the
// text that stands directly in it and the names from the root to it.
class XmlWalk {
 public:
  using OnText = std::function<void(const XmlPath&, const std::string&)>;

  static bool Run(absl::string_view xml, OnText on_text) {
    const std::unique_ptr<XML_ParserStruct, void (*)(XML_Parser)> parser(XML_ParserCreate("UTF-8"),
                                                                         XML_ParserFree);
    XmlWalk walk(parser.get(), std::move(on_text));
    XML_SetUserData(parser.get(), &walk);
    XML_SetElementHandler(parser.get(), &XmlWalk::OnStart, &XmlWalk::OnEnd);
    XML_SetCharacterDataHandler(parser.get(), &XmlWalk::OnCharacters);
    XML_SetStartDoctypeDeclHandler(parser.get(), &XmlWalk::OnDoctype);
    return XML_Parse(parser.get(), xml.data(), static_cast<int>(xml.size()), 1) == XML_STATUS_OK;
  }

 private:
  XmlWalk(XML_Parser parser, OnText on_text) : parser_(parser), on_text_(std::move(on_text)) {}

  static void OnStart(void* data, const char* name, const char** attributes) {
    auto* const walk = static_cast<XmlWalk*>(data);
    if (walk->path_.size() == kMostDepth) return walk->Stop();
    walk->path_.emplace_back(name);
    walk->texts_.emplace_back();
  }

  static void OnEnd(void* data, const char* name) {
    auto* const walk = static_cast<XmlWalk*>(data);
    walk->on_text_(walk->path_, walk->texts_.back());
    walk->path_.pop_back();
    walk->texts_.pop_back();
  }

  static void OnCharacters(void* data, const char* text, int bytes) {
    auto* const walk = static_cast<XmlWalk*>(data);
    std::string& whole = walk->texts_.back();
    whole.append(text, static_cast<size_t>(bytes));
    if (whole.size() > kMostTextBytes) walk->Stop();
  }

  static void OnDoctype(void* data, const char*, const char*, const char*, int) {
    static_cast<XmlWalk*>(data)->Stop();
  }

  void Stop() { XML_StopParser(parser_, XML_FALSE); }

  XML_Parser parser_;
  const OnText on_text_;
  XmlPath path_;
  std::vector<std::string> texts_;
};

// %XX → byte; what is no such escape stays.
std::string PercentDecoded(absl::string_view text) {
  std::string decoded;
  for (size_t i = 0; i < text.size(); ++i) {
    int byte = 0;
    if (text[i] == '%' && i + 2 < text.size() && absl::ascii_isxdigit(text[i + 1]) &&
        absl::ascii_isxdigit(text[i + 2]) && absl::SimpleHexAtoi(text.substr(i + 1, 2), &byte)) {
      decoded += static_cast<char>(byte);
      i += 2;
    } else {
      decoded += text[i] == '+' ? ' ' : text[i];
    }
  }
  return decoded;
}

std::string CodeOnly(absl::string_view text) {
  std::string code;
  for (const char c : text.substr(0, 64)) {
    if (absl::ascii_isalnum(c) || c == '.' || c == '-' || c == '_') code += c;
  }
  return code;
}

// A page while it is read.
class ListingReader {
 public:
  void Take(const XmlPath& path, const std::string& text) {
    if (path.size() == 1) root_ = path[0];
    if (path.size() == 2) TakeOfPage(path[1], text);
    if (path.size() == 3 && path[1] == "Contents") TakeOfObject(path[2], text);
    if (path.size() == 3 && path[1] == "CommonPrefixes" && path[2] == "Prefix") {
      listing_.prefixes.push_back(text);
    }
    if (path.size() == 2 && path[0] == "Error" && path[1] == "Code") error_ = CodeOnly(text);
  }

  absl::StatusOr<Listing> Finish() {
    if (root_ == "Error") return absl::DataLossError(absl::StrCat("the error ", error_));
    if (root_ != "ListBucketResult") return absl::DataLossError("no listing of a bucket");
    if (is_damaged_) return absl::DataLossError("a listing without the size of an object");
    if (is_truncated_ && listing_.next_token.empty()) {
      return absl::DataLossError("a listing that does not say how it continues");
    }
    if (!is_truncated_) listing_.next_token.clear();
    if (is_encoded_) {
      for (ListedObject& object : listing_.objects) object.key = PercentDecoded(object.key);
      for (std::string& prefix : listing_.prefixes) prefix = PercentDecoded(prefix);
    }
    return std::move(listing_);
  }

 private:
  void TakeOfPage(const std::string& name, const std::string& text) {
    if (name == "IsTruncated") is_truncated_ = text == "true";
    if (name == "NextContinuationToken") listing_.next_token = text;
    if (name == "EncodingType") is_encoded_ = text == "url";
    if (name == "Contents") {
      is_damaged_ = is_damaged_ || !has_size_ || object_.key.empty();
      listing_.objects.push_back(std::exchange(object_, {}));
      has_size_ = false;
    }
  }

  void TakeOfObject(const std::string& name, const std::string& text) {
    if (name == "Key") object_.key = text;
    if (name == "Size") has_size_ = absl::SimpleAtoi(text, &object_.size_bytes);
    if (name == "ETag") object_.etag = text;
    absl::Time time;
    if (name == "LastModified" && absl::ParseTime(absl::RFC3339_full, text, &time, nullptr)) {
      object_.mtime_ns = absl::ToUnixSeconds(time) * 1'000'000'000;
    }
  }

  Listing listing_;
  ListedObject object_;
  bool has_size_ = false;
  bool is_damaged_ = false;
  bool is_truncated_ = false;
  bool is_encoded_ = false;
  std::string root_;
  std::string error_;
};

}  // namespace

std::optional<std::map<std::string, std::string>> ParseXmlTexts(absl::string_view xml) {
  std::map<std::string, std::string> texts;
  const bool is_valid = XmlWalk::Run(
      xml, [&](const XmlPath& path, const std::string& text) { texts.emplace(path.back(), text); });
  if (!is_valid) return std::nullopt;
  return texts;
}

std::optional<StoreErrorBody> ParseStoreError(absl::string_view xml) {
  const auto texts = ParseXmlTexts(xml);
  if (!texts.has_value() || texts->count("Error") == 0) return std::nullopt;
  StoreErrorBody error;
  if (const auto code = texts->find("Code"); code != texts->end()) {
    error.code = CodeOnly(code->second);
  }
  if (const auto region = texts->find("Region"); region != texts->end()) {
    error.region = CodeOnly(region->second);
  }
  return error;
}

absl::StatusOr<Listing> ParseListing(absl::string_view xml) {
  ListingReader reader;
  const bool is_valid = XmlWalk::Run(
      xml, [&](const XmlPath& path, const std::string& text) { reader.Take(path, text); });
  if (!is_valid) return absl::DataLossError("no valid XML");
  return reader.Finish();
}

}  // namespace bulkhead
