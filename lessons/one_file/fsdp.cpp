// Fully Sharded Data Parallel training (FSDP) in one file.
//
// The problem. Training with Adam stores four numbers for each parameter: its value, its gradient,
// and two moments (running means of the gradient and of its square). In data parallel training,
// each of W processes stores all four numbers for the whole model. So if a model is too large for
// one process, more processes do not help.
//
// The idea. Each process, called a rank, stores one W-th of these numbers: its shard. But a layer
// cannot compute with a W-th of its weights. So the ranks send each other their shards of a layer
// just before the layer computes, and discard what they received just after it. One step:
//
//     forward    each unit:                 gather, compute, discard
//     backward   each unit, last to first:  gather, compute, discard, reduce
//     update     each unit:                 the optimizer runs on the rank's shard
//
// A unit is a part of the model that is gathered together. Here each block is a unit, and all other
// parameters form the root unit. The ranks compute with different rows of the batch, so their
// gradients differ. "Reduce" adds these gradients up, and leaves each rank the sum for its shard.
//
//     g++ -std=c++20 -O2 -o fsdp fsdp.cpp -pthread
//     ./fsdp plain      trains without FSDP, in one process
//     ./fsdp 4          trains on 4 ranks: each keeps a quarter, and the losses have the same bits

#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <string>
#include <valarray>
#include <vector>

using Floats = std::valarray<float>;    // a + b and tanh(a) compute element by element
using Rows = std::vector<std::string>;  // a row: the characters that the model reads, and the next

// ---- 1. What the model learns -------------------------------------------------------------------
//
// The model reads 16 characters of this text and predicts the next one. A token is an ASCII
// character, so the vocabulary has 128 tokens.

const std::string kText =
    "each rank keeps a shard, and no rank keeps the whole.\n"
    "to compute a unit, the ranks gather its shards.\n"
    "then each rank discards what it borrowed.\n"
    "backward gathers the unit again, and reduces its gradients.\n";
constexpr int kVocabulary = 128, kContext = 16, kEmbedding = 4, kWidth = kContext * kEmbedding;
constexpr int kHidden = 128, kBlocks = 3, kRows = 64, kSteps = 100, kMostRanks = 16;

int W = 1, rank = 0;  // there are W ranks, numbered from 0; this process is one of them

// The batch of a step is the same for every W: 64 rows, which begin 89 characters apart in the text
// (behind its end it begins again). Rank r takes the rows r, r + W, r + 2 W and so on.
Rows rows_of(int step) {
  Rows mine;
  for (int i = step * kRows + rank; i < (step + 1) * kRows; i += W)
    mine.push_back(kText.substr(i * 89 % (kText.size() - kContext), kContext + 1));
  return mine;
}

// ---- 2. The layers, which know nothing of ranks and shards --------------------------------------

// A matrix and its gradient, which lie somewhere in memory. It turns `in` floats into `out` floats.
struct Matrix {
  int in, out;
  float *weights, *gradients;
};

// A gradient is a sum over the rows of the batch. Each rank first adds up its own rows, so W
// changes the order of the additions, and with it how they round. To show that sharding itself
// changes no bit, we round every term to a multiple of 1/16,384. Sums of such terms are exact in
// any order, as long as they stay below 1,024, for a float has 24 binary digits. Real training does
// without, and the last digits of its losses depend on W.
float exactly_addable(float term) { return std::round(term * 16'384) / 16'384; }

// Multiplies each row of x by the matrix: y = m x.
Floats multiply(const Floats& x, const Matrix& m) {
  const int rows = static_cast<int>(x.size()) / m.in;
  Floats y(rows * m.out);
  for (int row = 0; row < rows; ++row)
    for (int o = 0; o < m.out; ++o)
      for (int i = 0; i < m.in; ++i)
        y[row * m.out + o] += m.weights[o * m.in + i] * x[row * m.in + i];
  return y;
}

// Backward takes dy, the gradient of a layer's result, and returns dx, the gradient of its input.
// It adds to the gradient of the matrix.
Floats multiply_backward(const Floats& x, const Matrix& m, const Floats& dy) {
  Floats dx(x.size());
  for (std::size_t row = 0; row < x.size() / m.in; ++row)
    for (int o = 0; o < m.out; ++o)
      for (int i = 0; i < m.in; ++i) {
        dx[row * m.in + i] += m.weights[o * m.in + i] * dy[row * m.out + o];
        m.gradients[o * m.in + i] += exactly_addable(x[row * m.in + i] * dy[row * m.out + o]);
      }
  return dx;
}

// Each character becomes 128 floats: a one at its token, and zeros. A matrix that multiplies them
// selects the embedding of the character.
Floats one_hot(const Rows& rows) {
  Floats x(rows.size() * kContext * kVocabulary);
  for (std::size_t n = 0; n < rows.size(); ++n)
    for (int t = 0; t < kContext; ++t) x[(n * kContext + t) * kVocabulary + rows[n][t]] = 1;
  return x;
}

// Returns the sum of the rows' losses, and replaces the logits by their gradient.
float cross_entropy(Floats& logits, const Rows& rows) {
  float loss = 0;
  for (std::size_t n = 0; n < rows.size(); ++n) {
    Floats p = exp(Floats(&logits[n * kVocabulary], kVocabulary));
    p /= p.sum();  // the probability of each token
    loss += exactly_addable(-std::log(p[rows[n].back()]));
    p[rows[n].back()] -= 1;
    logits[std::slice(n * kVocabulary, kVocabulary, 1)] = p;
  }
  return loss;
}

// Training keeps four floats for each parameter: of the whole model here, and of a shard below.
struct Kept {
  Floats parameters, gradients, mean, square;
  explicit Kept(int n) : parameters(n), gradients(n), mean(n), square(n) {}

  // AdamW treats each element alone, so a rank can update its shard without the other ranks. The
  // gradient is a sum over the batch, not a mean: Adam divides it by its size anyway.
  void update(int step) {
    mean += 0.1F * (gradients - mean);
    square += 0.01F * (gradients * gradients - square);
    const Floats m = mean / (1 - std::pow(0.9F, step)), v = square / (1 - std::pow(0.99F, step));
    parameters -= 0.006F * (kSteps - step) / kSteps * (m / (sqrt(v) + 1e-8F) + 0.01F * parameters);
  }
};

// ---- 3. The model, and how it trains without FSDP -----------------------------------------------
//
// The model has three blocks, and behind them the root: the embedding and the head. Each has two
// matrices, which lie end to end in one row of floats.

enum { up = 0, down = 1, embedding = 0, head = 1 };  // the matrices of a block, and of the root

// Their sizes: first the two matrices of a block, then those of the root.
constexpr int kIn[2][2] = {{kWidth, kHidden}, {kVocabulary, kWidth}};
constexpr int kOut[2][2] = {{kHidden, kWidth}, {kEmbedding, kVocabulary}};

int length_of(bool root) { return kIn[root][0] * kOut[root][0] + kIn[root][1] * kOut[root][1]; }

// Matrix m of a block, or of the root, in these rows.
Matrix matrix_in(Floats& parameters, Floats& gradients, bool root, int m) {
  const int begin = m * kIn[root][0] * kOut[root][0];
  return {kIn[root][m], kOut[root][m], &parameters[begin],
          gradients.size() > 0 ? &gradients[begin] : nullptr};
}

std::mt19937 random_numbers(1337);  // the same on every rank
float first_value() { return std::uniform_real_distribution(-0.15F, 0.15F)(random_numbers); }

// The activations: what forward computes and backward reads again.
Floats letters, x[kBlocks + 1], hidden[kBlocks];

void train_plainly() {
  std::vector<Kept> model;
  for (int b = 0; b <= kBlocks; ++b)
    for (float& p : model.emplace_back(length_of(b == kBlocks)).parameters) p = first_value();
  const auto matrix = [&](int b, int m) {
    return matrix_in(model[b].parameters, model[b].gradients, b == kBlocks, m);
  };
  for (int step = 1; step <= kSteps; ++step) {
    const Rows rows = rows_of(step);
    letters = one_hot(rows);
    x[0] = multiply(letters, matrix(kBlocks, embedding));
    for (int b = 0; b < kBlocks; ++b) {
      hidden[b] = tanh(multiply(x[b], matrix(b, up)));
      x[b + 1] = x[b] + multiply(hidden[b], matrix(b, down));
    }
    Floats logits = multiply(x[kBlocks], matrix(kBlocks, head));
    const float loss = cross_entropy(logits, rows);
    for (Kept& each : model) each.gradients = 0;
    Floats dx = multiply_backward(x[kBlocks], matrix(kBlocks, head), logits);
    for (int b = kBlocks - 1; b >= 0; --b) {
      const Floats dh = multiply_backward(hidden[b], matrix(b, down), dx);
      dx += multiply_backward(x[b], matrix(b, up), dh * (1.0F - hidden[b] * hidden[b]));
    }
    multiply_backward(letters, matrix(kBlocks, embedding), dx);
    for (Kept& each : model) each.update(step);
    if (step % 10 == 0) std::printf("step %3d  loss %.9f\n", step, loss / kRows);
  }
}

// ---- 4. Ranks and collectives -------------------------------------------------------------------
//
// A rank is a process, so each rank has its own copy of every variable in this file. Only the
// memory behind `shared` is common to all ranks. A rank copies what it sends into its outbox, and
// the other ranks read it there. Between machines, a network would carry the same floats.

struct Shared {
  std::atomic<int> arrivals;  // how often ranks have called wait_for_all_ranks
  std::atomic<bool> lost;     // whether a rank has died
  float outbox[kMostRanks][2 * kWidth * kHidden + kMostRanks];  // the longest row, with padding
}* shared = nullptr;

// Ranks arrive in rounds of W. A rank may go on when all ranks of its round have arrived.
void wait_for_all_ranks() {
  const int end_of_round = (shared->arrivals++ / W + 1) * W;
  while (shared->arrivals < end_of_round && !shared->lost) usleep(10);
  if (shared->lost) _exit(1);
}

// Each rank gives its shard. Each rank gets the whole row: all shards, in the order of the ranks.
void all_gather(const Floats& shard, Floats& row) {
  std::copy(begin(shard), end(shard), shared->outbox[rank]);
  wait_for_all_ranks();  // now every outbox is full
  for (int r = 0; r < W; ++r) std::copy_n(shared->outbox[r], shard.size(), &row[r * shard.size()]);
  wait_for_all_ranks();  // now every outbox has been read, and may be filled again
}

// Each rank gives a whole row. Rank r gets shard r of the sum of these rows.
void reduce_scatter(const Floats& row, Floats& shard) {
  std::copy(begin(row), end(row), shared->outbox[rank]);
  wait_for_all_ranks();
  const std::size_t s = shard.size();
  shard = 0;
  for (int r = 0; r < W; ++r) shard += Floats(&shared->outbox[r][rank * s], s);
  wait_for_all_ranks();
}

// ---- 5. A unit: what a rank keeps, and what it borrows ------------------------------------------
//
// The row of a unit's matrices is its flat parameter: one all-gather brings both. The row is cut
// into W shards of s floats, wherever a matrix ends. If W does not divide the length of the row,
// padding makes the row longer.
//
//     row = [ matrix 0 | matrix 1 | padding ]      shard of rank r = row[r * s .. (r + 1) * s)

// The ledger: how many floats this rank keeps, borrows now, borrows at most and has sent, and in
// how many collectives. It does not count the loss, which is one float.
long kept = 0, borrowed = 0, peak = 0, sent = 0, collectives = 0;

struct Unit : Kept {  // what it keeps is a shard
  bool root;
  int s;                                     // floats of a shard
  Floats whole_parameters, whole_gradients;  // the rank borrows these rows while it needs them

  // Deferred initialisation. No rank ever holds the whole model, not even at the start: each rank
  // draws all numbers, and keeps those of its shard. So the first values do not depend on W.
  explicit Unit(bool is_root) : Kept((length_of(is_root) + W - 1) / W), root(is_root) {
    s = static_cast<int>(parameters.size());
    kept += 4 * s;
    for (int i = 0; i < length_of(root); ++i) {
      const float value = first_value();
      if (i / s == rank) parameters[i % s] = value;
    }
  }
  Matrix matrix(int m) { return matrix_in(whole_parameters, whole_gradients, root, m); }

  void gather() {
    borrow(whole_parameters);
    all_gather(parameters, whole_parameters);
  }
  void discard() { give_back(whole_parameters); }

  void take_gradients() { borrow(whole_gradients); }  // all zero; backward adds to them
  void reduce() {
    reduce_scatter(whole_gradients, gradients);
    give_back(whole_gradients);
  }

  // One collective fills or reads each borrowed row. In it, this rank sends its part to each of the
  // W - 1 other ranks.
  void borrow(Floats& row) {
    row.resize(W * s);
    borrowed += W * s;
    peak = std::max(peak, borrowed);
    sent += (W - 1) * s;
    ++collectives;
  }

  // Writes NaN over the floats before it frees their memory, so that no old value is left there.
  void give_back(Floats& row) {
    row = NAN;
    row.resize(0);
    borrowed -= W * s;
  }
};

// ---- 6. The same training with FSDP -------------------------------------------------------------

std::vector<Unit> units;  // the blocks, and behind them the root

//! [fsdp]
// Returns the logits: for each row, a number for each token that may come next.
Floats forward(const Rows& rows) {
  Unit& root = units[kBlocks];
  root.gather();
  letters = one_hot(rows);
  x[0] = multiply(letters, root.matrix(embedding));
  for (int b = 0; b < kBlocks; ++b) {
    units[b].gather();
    hidden[b] = tanh(multiply(x[b], units[b].matrix(up)));
    x[b + 1] = x[b] + multiply(hidden[b], units[b].matrix(down));
    units[b].discard();
  }
  return multiply(x[kBlocks], root.matrix(head));  // the root stays: backward begins with its head
}

// Leaves each rank its shard of the gradients. Returns the loss, summed over the rows of all ranks.
float backward(const Rows& rows, Floats logits) {
  Floats loss(cross_entropy(logits, rows), W), sum(1);
  Unit& root = units[kBlocks];
  root.take_gradients();
  Floats dx = multiply_backward(x[kBlocks], root.matrix(head), logits);
  for (int b = kBlocks - 1; b >= 0; --b) {
    units[b].gather();
    units[b].take_gradients();
    const Floats dh = multiply_backward(hidden[b], units[b].matrix(down), dx);
    dx += multiply_backward(x[b], units[b].matrix(up), dh * (1.0F - hidden[b] * hidden[b]));
    units[b].discard();
    units[b].reduce();
  }
  multiply_backward(letters, root.matrix(embedding), dx);
  root.discard();
  root.reduce();
  reduce_scatter(loss, sum);
  return sum[0];
}
//! [fsdp]

// The model continues the first line. All ranks compute the same row, because each of them needs
// the shards of the others.
void generate() {
  std::string text = kText.substr(0, kText.find('\n') + 1);
  while (std::ranges::count(text, '\n') < 4 && text.size() < 400) {
    const Floats p = exp(forward({text.substr(text.size() - kContext)}));
    units[kBlocks].discard();  // no backward follows, which would discard the root
    text += static_cast<char>(std::discrete_distribution<int>(begin(p), end(p))(random_numbers));
  }
  if (rank == 0) std::printf("%s", text.c_str());
}

void run_rank() {
  for (int b = 0; b <= kBlocks; ++b) units.emplace_back(/*is_root=*/b == kBlocks);
  for (int step = 1; step <= kSteps; ++step) {
    const Rows rows = rows_of(step);
    const float loss = backward(rows, forward(rows)) / kRows;
    for (Unit& unit : units) unit.update(step);
    if (rank == 0 && step % 10 == 0) std::printf("step %3d  loss %.9f\n", step, loss);
  }
  if (rank == 0)
    std::printf("a rank keeps %ld B, borrows at most %ld, sends %ld in %ld collectives a step\n",
                4 * kept, 4 * peak, 4 * sent / kSteps, collectives / kSteps);
  generate();
}

// ---- 7. The ranks start -------------------------------------------------------------------------

int main(int argc, char** argv) {
  if (argc == 2 && argv[1] == std::string("plain")) return train_plainly(), 0;
  W = argc == 2 ? std::atoi(argv[1]) : 0;
  if (W < 1 || W > kMostRanks) return std::fputs("usage: fsdp plain, or fsdp 1 to 16\n", stderr), 2;
  shared = static_cast<Shared*>(
      mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
  for (rank = 0; rank < W; ++rank) {
    const pid_t child = fork();
    if (child == 0) return run_rank(), 0;
    if (child < 0) shared->lost = true;
  }
  // If a rank dies, the other ranks wait for it. So the parent tells them to stop.
  for (int status = 0; wait(&status) > 0;)
    if (status != 0) shared->lost = true;
  return shared->lost ? 1 : 0;
}
