#pragma once

#include <algorithm>
#include <functional>
#include <initializer_list>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace bulkhead {

// The upper limit of numbers that have only a least value.
inline constexpr double kNoLimit = std::numeric_limits<double>::infinity();

// The declaration of one option of a stage: its allowed values and its default. The .proto file has
// its type and, as a comment, its meaning. Enums and booleans count as numbers. In messages, $0 is
// the wrong value (for Count the number of values), $1 and $2 are the limits.
//
//   Option("sigma").OneStandsFor(2).Default({0.1, 2}).RangeAbove(0, 1000)
//   Option("probability").Default(0.5).Between(0, 1)
//
// A value type.
class Option {
 public:
  using Predicate = std::function<bool(double)>;

  // `name`: the field's name.
  explicit Option(std::string name) : name(std::move(name)) {}

  // The value if the spec gives none; for a list, its only number or all of them.
  Option& Default(double value) { return Default({value}); }
  Option& Default(std::initializer_list<double> values) { return Set(defaults, values); }
  Option& DefaultName(std::string text) { return Set(default_name, std::move(text)); }
  // The same, but the normal form omits the option if it has this value; a worker fills it in.
  Option& ImpliedDefault(double value) { return Set(implied, value).Default(value); }
  // The default of the first version, which fingerprints keep, so that old cursors are still good:
  // for a default that was changed without changing the bytes of what both admit.
  Option& FirstDefault(double value) { return Set(first_default, value); }
  // The default in words, for the documentation.
  Option& Otherwise(std::string words) { return Set(otherwise, std::move(words)); }

  // "is required: MEANING". `like`: a value as a spec has it, with which a message shows what to
  // write where no option is given.
  Option& Required(const std::string& meaning, std::string like = "") {
    return Needs("is required: " + meaning).Set(example, std::move(like));
  }
  // The same with the whole message.
  Option& Needs(std::string sentence) { return Set(needs, std::move(sentence)); }

  // Every value lies within these limits.
  Option& Between(double least, double most, std::string says = "must lie between $1 and $2") {
    return Limit(least, false, most, std::move(says));
  }
  Option& Above(double limit, double most,
                std::string says = "must be a number above $1 and at most $2") {
    return Limit(limit, true, most, std::move(says));
  }
  // `allows` accepts every value; checked before the limits.
  Option& Only(Predicate allows, std::string says) {
    return Set(only, std::move(allows)).Set(only_says, std::move(says));
  }
  Option& OneOf(std::vector<double> values, std::string says) {
    return Only([=](double value) { return std::count(values.begin(), values.end(), value) > 0; },
                std::move(says));
  }
  Option& NoneOf(std::vector<double> values, std::string says) {
    return Only([=](double value) { return std::count(values.begin(), values.end(), value) == 0; },
                std::move(says));
  }
  // The length of a list.
  Option& Count(int least, int most, std::string says) {
    return Set(least_count, least).Set(most_count, most).Set(count_says, std::move(says));
  }

  // A list of one number is repeated to `count` numbers.
  Option& OneStandsFor(int count) { return Set(one_stands_for, count); }
  // Two numbers [low, high] within limits; `more` is appended to the message.
  Option& Range(double least, double most, std::string more = "") {
    return Set(is_range, true).Limit(least, false, most, std::move(more));
  }
  Option& RangeAbove(double limit, double most) {
    return Set(is_range, true).Limit(limit, true, most, "");
  }

  std::string name;
  std::vector<double> defaults;
  std::string default_name;
  std::optional<double> implied;
  std::optional<double> first_default;
  std::string otherwise;
  std::string needs;    // the message; empty: not required
  std::string example;  // of a required value; may be empty
  double least = -std::numeric_limits<double>::infinity();
  double most = kNoLimit;
  bool is_above_least = false;
  std::string limits_say;
  Predicate only;
  std::string only_says;
  int least_count = 0;
  int most_count = std::numeric_limits<int>::max();
  std::string count_says;
  int one_stands_for = 1;
  bool is_range = false;

 private:
  template <typename Member, typename Value>
  Option& Set(Member& member, Value value) {
    member = std::move(value);
    return *this;
  }
  Option& Limit(double from, bool above, double to, std::string says) {
    return Set(least, from).Set(is_above_least, above).Set(most, to).Set(limits_say, says);
  }
};

}  // namespace bulkhead
