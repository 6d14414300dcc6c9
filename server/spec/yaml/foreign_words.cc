#include "server/spec/yaml/foreign_words.h"

#include <initializer_list>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "absl/strings/substitute.h"
#include "bulkhead/v1/pipeline.pb.h"
#include "server/spec/yaml/yaml_scalar.h"

namespace bulkhead {
namespace {

using Words = std::map<std::string, ForeignWord>;  // by Folded

// Of what is repeated.
constexpr size_t kMaxValueBytes = 64;
constexpr size_t kMaxMapBytes = 200;

constexpr char kGlobal[] = "write `order: global`: the whole epoch is shuffled, without a buffer";
constexpr char kWorkers[] =
    "no part of a spec: write it in the program, Loader(..., workers=$0), or start bulkheadd "
    "--workers $0";
constexpr char kAhead[] = "leave it out: the service works ahead by itself";
constexpr char kListHere[] = "write `image_list: {path: $0}`";
constexpr char kTopOfSpec[] = "belongs at the top of the spec: $0";

// The words of one message; what stands behind several words holds for each.
Words WordsOf(std::initializer_list<std::pair<const char*, ForeignWord>> rows) {
  Words words;
  for (const auto& [names, advice] : rows) {
    for (const absl::string_view name : absl::StrSplit(names, ' ')) words.emplace(name, advice);
  }
  return words;
}

Words StageWords() {
  return WordsOf({
      {"resize",
       {"torchvision's gives the shorter side that length: write `resize: {shorter_side: $0}`; for "
        "exactly that height and width write `resize: {size: $0}`",
        "256"}},
      {"resizewithpad", {"write `letterbox: {size: $0}`", "224", "letterbox"}},
      {"longestmaxsize", {"write `resize: {longer_side: $0}`", "640"}},
      {"smallestmaxsize", {"write `resize: {shorter_side: $0}`", "256"}},
      {"randomresizedcrop",
       {"write `random_resized_crop: {size: $0}`", "224", "random_resized_crop"}},
      {"centercrop centralcrop", {"write `center_crop: {size: $0}`", "224", "center_crop"}},
      {"randomcrop", {"write `random_crop: {size: $0}`", "224", "random_crop"}},
      {"totensor",
       {"images are arrays already: for values of 0 to 1 write `normalize: {divide: 255}`, for "
        "channels first `layout: {to: nchw}`"}},
      {"totensorv2 piltotensor permute transpose", {"write `layout: {to: nchw}`"}},
      {"toimage", {"leave it out: decoded images are arrays of uint8"}},
      {"todtype convertimagedtype rescaling rescale convertimagetofloat",
       {"write `normalize: {divide: 255}`"}},
      {"normalize",
       {"write `normalize: {mean: [123.675, 116.28, 103.53], std: [58.395, 57.12, 57.375]}`: "
        "torchvision's constants times 255, because values are 0 to 255 here",
        "", "normalize"}},
      {"perimagestandardization",
       {"write `normalize` with constants, or a `python` stage with a function of your own"}},
      {"colorjitter",
       {"write `color_jitter: {brightness: 0.4, contrast: 0.4, saturation: 0.4, hue: 0.1}`", "",
        "color_jitter"}},
      {"randombrightness adjustbrightness", {"write `color_jitter: {brightness: $0}`", "0.2"}},
      {"randomcontrast adjustcontrast", {"write `color_jitter: {contrast: $0}`", "0.2"}},
      {"randomsaturation adjustsaturation", {"write `color_jitter: {saturation: $0}`", "0.2"}},
      {"randomhue adjusthue", {"write `color_jitter: {hue: $0}`", "0.1"}},
      {"randomflipleftright flipleftright horizontalflip randomhorizontalflip randomflip",
       {"write `random_horizontal_flip`, or `{probability: $0}` below it", "0.5",
        "random_horizontal_flip"}},
      {"randomflipupdown flipupdown verticalflip randomverticalflip",
       {"write `random_vertical_flip`, or `{probability: $0}` below it", "0.5",
        "random_vertical_flip"}},
      {"randomrotation randomrotate rotate",
       {"write `random_affine: {degrees: $0}`", "15", "random_affine"}},
      {"gaussianblur", {"write `gaussian_blur: {kernel: $0}`", "5", "gaussian_blur"}},
      {"randomgrayscale", {"write `grayscale: {probability: $0}`", "0.1", "grayscale"}},
      {"rgbtograyscale", {"write `grayscale`, or decode with `decode_image: {color: gray}`"}},
      {"trivialaugmentwide", {"write `trivial_augment`"}},
      {"autoaugment augmix",
       {"there is none here: `rand_augment` and `trivial_augment` are alike"}},
      {"decodejpeg decodepng imread", {"write `decode_image`"}},
      {"compose sequential",
       {"leave it out: stages are a list, each on a line of its own after a dash"}},
      {"lambda map pyfunction numpyfunction",
       {"write `python: {function: \"module:name\", inputs: [image], outputs: [{name: image, "
        "dtype: uint8, shape: [224, 224, 3]}]}`"}},
      {"randomapply randomchoice", {"give the stage itself `probability: $0`", "0.5"}},
      {"shuffle", {kTopOfSpec, "`order: global`"}},
      {"batch", {kTopOfSpec, "`batch: {size: 64}`"}},
      {"repeat", {kTopOfSpec, "`epochs: forever`"}},
      {"prefetch", {kAhead}},
      {"filter", {kTopOfSpec, "`filter: [{feature: label, in: [3]}]`"}},
      {"split", {kTopOfSpec, "`split: {parts: {train: 0.8, validation: 0.2}, use: train}`"}},
      {"skip", {kTopOfSpec, "`skip: 1000`"}},
      {"take", {kTopOfSpec, "`take: 1000`"}},
  });
}

Words SpecWords() {
  return WordsOf({
      {"shuffle shufflebuffer shufflebuffersize buffersize", {kGlobal}},
      {"reshuffleeachiteration", {"write `order: {global: {reshuffle: $0}}`", "true"}},
      {"batchsize", {"write `batch: {size: $0}`", "64"}},
      {"droplast dropremainder", {"write `batch: {size: 64, drop_remainder: $0}`", "true"}},
      {"numworkers workers numparallelcalls", {kWorkers, "4"}},
      {"persistentworkers", {"leave it out: the workers are the service's, and stay"}},
      {"prefetch prefetchfactor", {kAhead}},
      {"pinmemory", {"no part of a spec: the program moves batches (docs/pytorch.md)"}},
      {"collatefn", {"leave it out: batches are made by the service; see `batch_stages`"}},
      {"transform transforms augmentation augmentations preprocessing",
       {"write `stages:` and each step on a line of its own, after a dash"}},
      {"dataset", {"write `source:`, such as `source: {image_folder: {path: photos}}`"}},
      {"datadir root", {"write `source: {image_folder: {path: $0}}`", "photos"}},
      {"filenames files", {"write `source: {tfrecord: {files: $0}}`", "data/*.tfrecord"}},
      {"repeat numepochs", {"write `epochs: $0`, or `epochs: forever`", "10"}},
      {"randomseed manualseed", {"write `seed: $0`", "1"}},
      {"imagesize targetsize", {"write `resize: {size: $0}` among `stages`", "224"}},
      {"validationsplit",
       {"write `split: {parts: {train: 0.8, validation: 0.2}, use: train}`, and in the spec of the "
        "validation `use: validation`"}},
      {"cache", {"write `cache` among `stages`, behind what it is to keep"}},
      {"shard numshards rank worldsize",
       {"no part of a spec: write it in the program, Loader(..., rank=R, world_size=N)"}},
  });
}

// "randomflipleftright" of "tf.image.random_flip_left_right", "centercrop" of "T.CenterCrop(224)".
std::string Folded(absl::string_view word) {
  word = word.substr(0, word.find('('));
  const size_t dot = word.rfind('.');
  if (dot != absl::string_view::npos) word.remove_prefix(dot + 1);
  std::string folded;
  for (const char c : word) {
    if (absl::ascii_isalnum(c)) folded += absl::ascii_tolower(c);
  }
  return folded;
}

// "224" of "Resize(224)", "[256, 256]" of "Resize((256, 256))"; empty: none that can be repeated.
std::string Argument(absl::string_view word) {
  const size_t open = word.find('(');
  if (open == absl::string_view::npos || !absl::ConsumeSuffix(&word, ")")) return "";
  std::string argument(absl::StripAsciiWhitespace(word.substr(open + 1)));
  if (argument.size() > 2 && argument.front() == '(' && argument.back() == ')') {
    argument.front() = '[';
    argument.back() = ']';
  }
  return argument.find_first_not_of("0123456789.,[] ") == std::string::npos ? argument : "";
}

// An option's name here, by that in other libraries.
std::string OptionName(absl::string_view name) {
  const auto found = ForeignOptionNames().find(std::string(name));
  return found == ForeignOptionNames().end() ? std::string(name) : found->second;
}

// A list of constants for values of 0 to 1, times 255; as it is where it has another one.
std::string Times255(const YamlNode& value) {
  std::vector<std::string> products;
  const std::vector<const YamlNode*> one = {&value};
  for (const YamlNode* item : value.kind == YamlNode::Kind::kSequence ? value.items : one) {
    double number = 0;
    if (!absl::SimpleAtod(item->text, &number) || number > 1) return YamlText(value);
    products.push_back(absl::StrFormat("%.6g", number * 255));
  }
  return value.kind == YamlNode::Kind::kSequence
             ? absl::StrCat("[", absl::StrJoin(products, ", "), "]")
             : products[0];
}

// "{size: 32, padding: 4}": those of a map's options that `stage` has as well; empty: none.
std::string OptionsIn(const std::string& stage, const YamlNode& map) {
  const auto* const field = v1::Stage::descriptor()->FindFieldByName(stage);
  std::vector<std::string> options;
  for (const auto& [key, value] : map.entries) {
    const std::string name = OptionName(key->text);
    if (field == nullptr || field->message_type()->FindFieldByName(name) == nullptr) continue;
    const std::string text = stage == "normalize" ? Times255(*value) : YamlText(*value);
    if (!text.empty()) options.push_back(absl::StrCat(name, ": ", text));
  }
  const std::string text = absl::StrCat("{", absl::StrJoin(options, ", "), "}");
  return options.empty() || text.size() > kMaxMapBytes ? "" : text;
}

// What the word's one value is: itself, or that of a map's `size`, or else of its first option.
std::string ValueText(const YamlNode& value) {
  if (value.kind != YamlNode::Kind::kMap) return YamlText(value);
  std::string first;
  for (const auto& [key, option] : value.entries) {
    if (key->text == "size") return YamlText(*option);
    if (first.empty()) first = YamlText(*option);
  }
  return first;
}

// Whether a number is wanted and `text` is none.
bool IsNoSuchNumber(absl::string_view example, absl::string_view text) {
  return !example.empty() && absl::ascii_isdigit(example[0]) &&
         text.find_first_not_of("0123456789.,[] -+e") != absl::string_view::npos;
}

}  // namespace

const Words& ForeignWords(const google::protobuf::Descriptor& type) {
  static const auto& all = *new std::map<const google::protobuf::Descriptor*, Words>{
      {v1::Stage::descriptor(), StageWords()},
      {v1::PipelineSpec::descriptor(), SpecWords()},
      {v1::Batch::descriptor(),
       WordsOf({
           {"batchsize", {"write `size: $0`", "64"}},
           {"droplast", {"write `drop_remainder: $0`", "true"}},
           {"shuffle", {"`order: global`, beside `batch`, shuffles the whole epoch"}},
           {"numworkers", {kWorkers, "4"}},
       })},
      {v1::Order::descriptor(), WordsOf({{"shuffle shuffled random true shuffleall", {kGlobal}},
                                         {"false none", {"write `order: sequential`"}}})},
      {v1::Source::descriptor(),
       WordsOf({
           {"folder imagedir imagedirectory images datadir dir root path imagefolder "
            "imagedatasetfromdirectory directory",
            {"write `image_folder: {path: $0}`", "photos"}},
           {"csv csvfile", {kListHere, "train.csv"}},
           {"tsv", {kListHere, "train.tsv"}},
           {"txt filelist list", {kListHere, "train.txt"}},
           {"tfrecorddataset tfrecords", {"write `tfrecord: {files: $0}`", "data/*.tfrecord"}},
           {"shards tars wds webdataset", {"write `tar: {files: $0}`", "data/*.tar"}},
       })},
      {v1::Split::descriptor(),
       WordsOf({{"train training val valid validation test",
                 {"parts stand below `parts`: write `split: {parts: {train: "
                  "0.8, validation: 0.2}, use: train}`"}}})},
      {v1::ErrorPolicy::descriptor(),
       WordsOf({
           {"skip ignore continue warn replace drop",
            {"write `errors: {policy: substitute}`: the next good sample takes the place of a bad "
             "one, so that batches keep their size"}},
           {"raise strict stop", {"write `errors: {policy: fail}`"}},
       })},
  };
  static const auto& none = *new Words();
  const auto found = all.find(&type);
  return found == all.end() ? none : found->second;
}

const std::map<std::string, std::string>& ForeignOptionNames() {
  static const auto& names = *new std::map<std::string, std::string>{
      {"p", "probability"},      {"prob", "probability"},     {"kernel_size", "kernel"},
      {"num_ops", "operations"}, {"method", "interpolation"}, {"root", "path"},
      {"dir", "path"},           {"directory", "path"},       {"folder", "path"}};
  return names;
}

std::string ForeignWordAdvice(absl::string_view word, const YamlNode* value,
                              const google::protobuf::Descriptor& type) {
  const std::string text = value == nullptr ? "" : ValueText(*value);
  if (const std::string name = OptionName(word);
      name != word && type.FindFieldByName(name) != nullptr) {
    const std::string foreign = ForeignEnumValue(text, *type.FindFieldByName(name));
    const std::string shown = foreign.empty() ? text : foreign;
    const char* const example = name == "probability" ? "0.5" : "...";
    return absl::StrCat("write `", name, ": ", shown.empty() ? example : shown, "`");
  }
  const Words& words = ForeignWords(type);
  const auto found = words.find(Folded(word));
  if (found == words.end()) return "";
  if (found->first == "shuffle" && absl::EqualsIgnoreCase(text, "false")) {
    return "leave it out: samples come in the source's own order";
  }
  const ForeignWord& advice = found->second;
  if (value != nullptr && value->kind == YamlNode::Kind::kMap) {
    const std::string options = OptionsIn(advice.stage, *value);
    if (!options.empty()) return absl::StrCat("write `", advice.stage, ": ", options, "`");
  }
  std::string shown = value == nullptr ? Argument(word) : text;
  if (shown.empty() || shown.size() > kMaxValueBytes || advice.sentence == kTopOfSpec ||
      IsNoSuchNumber(advice.example, shown)) {
    shown = advice.example;
  }
  return absl::Substitute(advice.sentence, shown);
}

std::string OtherMeaning(const google::protobuf::Descriptor& type, absl::string_view value) {
  if (&type != v1::Resize::descriptor() || absl::StrContains(value, ",")) return "";
  return absl::StrCat(" for exactly that height and width, or resize: {shorter_side: ", value,
                      "} to keep the proportions, as torchvision does");
}

}  // namespace bulkhead
