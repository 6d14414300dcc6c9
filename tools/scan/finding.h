#pragma once

#include <map>
#include <string>

#include "tools/common/json.h"

namespace bulkhead::tools {

// A record, or a whole file of records, that cannot be read or made into a sample.
struct Finding {
  std::string record;  // as quarantine knows it; empty: a whole file
  std::string file;    // an image, or a file of records
  std::string offset;  // in the file; empty: unknown, or the whole file
  std::string list;    // that names the file, and its line; empty: no list does
  std::string line;
  std::string reason;   // of docs/errors.md
  std::string message;  // with the place: "train.txt:17 (cats/one.jpg): …"
  // The name by which a spec's `exclude` leaves it out.
  std::string excluded_as;

  // "train.txt:17 (cats/one.jpg): stages[0] decode_image: … [CORRUPT_IMAGE]".
  std::string Text() const;
  JsonObject Json() const;
};

// Of an error's metadata, of which a whole file that could not be found or indexed has `file`
// alone; `position`, which says nothing to those who look at data, is taken off the message.
Finding FindingOf(const std::string& reason, const std::map<std::string, std::string>& metadata,
                  std::string message);

}  // namespace bulkhead::tools
