#include "evenkeel/pool/affinity_table.h"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <thread>
#include <vector>

namespace evenkeel {
namespace {

using namespace std::chrono_literals;
using Tag = AffinityTable::Tag;

constexpr Instant noon = Instant(12h);
constexpr Duration ttl = 30min;
constexpr Tag a = 11;
constexpr Tag b = 12;

TEST(AffinityTable, FindsWhatWasPinned) {
  AffinityTable table(100);

  EXPECT_EQ(table.find(1, ttl, noon), AffinityTable::none);
  EXPECT_EQ(table.pin(1, AffinityTable::none, a, ttl, noon), a);
  EXPECT_EQ(table.pin(2, AffinityTable::none, b, ttl, noon), b);

  EXPECT_EQ(table.find(1, ttl, noon), a);
  EXPECT_EQ(table.find(2, ttl, noon), b);
  EXPECT_EQ(table.find(3, ttl, noon), AffinityTable::none);
  EXPECT_EQ(table.stats().sessions, 2u);
}

TEST(AffinityTable, OfTwoRequestsThatPlaceASessionTheFirstWins) {
  AffinityTable table(100);

  EXPECT_EQ(table.pin(1, AffinityTable::none, a, ttl, noon), a);
  EXPECT_EQ(table.pin(1, AffinityTable::none, b, ttl, noon), a);

  EXPECT_EQ(table.find(1, ttl, noon), a);
}

TEST(AffinityTable, MovesASessionOnlyFromWhereItWasSeen) {
  AffinityTable table(100);
  table.pin(1, AffinityTable::none, a, ttl, noon);

  EXPECT_EQ(table.pin(1, a, b, ttl, noon), b);
  EXPECT_EQ(table.pin(1, a, 13, ttl, noon), b);

  EXPECT_EQ(table.find(1, ttl, noon), b);
  EXPECT_EQ(table.stats().sessions, 1u);
}

TEST(AffinityTable, ForgetsASessionThatIsIdleForItsTime) {
  AffinityTable table(100);
  table.pin(1, AffinityTable::none, a, ttl, noon);

  EXPECT_EQ(table.find(1, ttl, noon + 29min), a);  // a use
  EXPECT_EQ(table.find(1, ttl, noon + 58min), a);
  EXPECT_EQ(table.find(1, ttl, noon + 89min), AffinityTable::none);
  EXPECT_EQ(table.pin(1, AffinityTable::none, b, ttl, noon + 89min), b);
  EXPECT_EQ(table.stats().sessions, 1u);
}

TEST(AffinityTable, ForgetsAnUnusedSessionEarlierIfItBeginsIdle) {
  AffinityTable table(100);
  table.pin(1, AffinityTable::none, a, ttl, noon, 15min);
  table.pin(2, AffinityTable::none, a, ttl, noon, 15min);

  EXPECT_EQ(table.find(2, ttl, noon + 10min), a);
  EXPECT_EQ(table.find(1, ttl, noon + 16min), AffinityTable::none);
  EXPECT_EQ(table.find(2, ttl, noon + 30min), a);
}

TEST(AffinityTable, ToleratesAClockThatIsBehind) {
  AffinityTable table(100);
  table.pin(1, AffinityTable::none, a, ttl, noon);

  EXPECT_EQ(table.find(1, ttl, noon - 2s), a);
  EXPECT_EQ(table.find(1, ttl, noon), a);
}

TEST(AffinityTable, ReleasesTheSessionsOfBackends) {
  AffinityTable table(1000);
  for (std::uint64_t session = 0; session < 300; ++session) {
    table.pin(session, AffinityTable::none, 11 + session % 3, ttl, noon);
  }
  const std::array<Tag, 2> gone = {12, 99};
  std::array<std::uint64_t, 2> counts{};

  table.release(gone, counts);

  EXPECT_EQ(counts, (std::array<std::uint64_t, 2>{100, 0}));
  EXPECT_EQ(table.stats().sessions, 200u);
  EXPECT_EQ(table.find(0, ttl, noon), 11u);
  EXPECT_EQ(table.find(1, ttl, noon), AffinityTable::none);
}

TEST(AffinityTable, ExpiresIdleSessionsPartByPart) {
  AffinityTable table(1000);
  for (std::uint64_t session = 0; session < 300; ++session) {
    table.pin(session, AffinityTable::none, a, ttl, session < 100 ? noon : noon + 1h);
  }

  table.expire(0.25, ttl, noon + 1h);
  const std::uint64_t after_one = table.stats().sessions;
  for (int i = 0; i < 4; ++i) table.expire(0.25, ttl, noon + 1h);

  EXPECT_LT(after_one, 300u);
  EXPECT_GT(after_one, 200u);
  EXPECT_EQ(table.stats().sessions, 200u);
}

TEST(AffinityTable, KeepsNearlyAllOfHalfAsManyAsItHasRoomFor) {
  constexpr std::uint32_t max = 200'000;
  AffinityTable table(max);
  for (std::uint64_t session = 0; session < max / 2; ++session) {
    table.pin(session, AffinityTable::none, a, ttl, noon);
    if (session != max / 3) continue;
    EXPECT_LE(table.stats().evictions, max / 3 / 400);
  }

  EXPECT_LE(table.stats().evictions, max / 2 / 70);
  EXPECT_EQ(table.stats().sessions + table.stats().evictions, max / 2);
}

TEST(AffinityTable, ReplacesTheIdlestWhenItIsFull) {
  constexpr std::uint32_t max = 10'000;
  AffinityTable table(max);
  for (std::uint64_t session = 0; session < 10 * max; ++session) {
    table.pin(session, AffinityTable::none, a, ttl, noon + session / 100 * 1s);
    // The first thousand sessions go on.
    table.find(session % 1000, ttl, noon + session / 100 * 1s);
  }

  const AffinityStats stats = table.stats();
  EXPECT_LE(stats.sessions, max + 6);
  EXPECT_GE(stats.sessions, max * 0.95);
  EXPECT_EQ(stats.sessions + stats.evictions, 10 * max);
  std::uint64_t kept = 0;
  for (std::uint64_t session = 0; session < 1000; ++session) {
    kept += table.find(session, 24h, noon + 1000s) == a ? 1 : 0;
  }
  EXPECT_GT(kept, 950u);
}

TEST(AffinityTable, UnconfirmedSessionsDisplaceNoConfirmedOnes) {
  AffinityTable table(700);
  constexpr std::uint64_t real = 500;
  std::uint64_t kept_before = 0;
  for (std::uint64_t session = 0; session < real; ++session) {
    table.pin(session, AffinityTable::none, a, ttl, noon);
    table.confirm(session, a, ttl, noon);
  }
  const auto kept = [&] {
    std::uint64_t count = 0;
    for (std::uint64_t session = 0; session < real; ++session) {
      count += table.find(session, ttl, noon + 20min) == a ? 1 : 0;
    }
    return count;
  };
  kept_before = kept();
  EXPECT_GT(kept_before, real * 9 / 10);

  for (std::uint64_t session = real; session < 10 * real; ++session) {
    EXPECT_EQ(table.pin(session, AffinityTable::none, b, ttl, noon + 20min), b);
    table.find(session, ttl, noon + 20min);  // asking again confirms nothing
  }

  EXPECT_EQ(kept(), kept_before);
}

TEST(AffinityTable, AConfirmedSessionTakesThePlaceOfOneThatIsNot) {
  AffinityTable table(7);
  for (std::uint64_t session = 0; session < 7; ++session) {
    table.pin(session, AffinityTable::none, a, ttl, noon);
    if (session > 0) table.confirm(session, a, ttl, noon - 10min);
  }

  table.pin(7, AffinityTable::none, b, ttl, noon);
  table.pin(8, AffinityTable::none, b, ttl, noon);
  table.confirm(7, b, ttl, noon);

  EXPECT_EQ(table.find(0, ttl, noon), AffinityTable::none);
  EXPECT_EQ(table.find(7, ttl, noon), b);
  EXPECT_EQ(table.find(8, ttl, noon), AffinityTable::none);
  for (std::uint64_t session = 1; session < 7; ++session) {
    EXPECT_EQ(table.find(session, ttl, noon), a);
  }
}

TEST(AffinityTable, AConfirmationDoesNotMoveASessionBack) {
  AffinityTable table(100);
  table.pin(1, AffinityTable::none, a, ttl, noon);
  table.pin(1, a, b, ttl, noon);

  table.confirm(1, a, ttl, noon);

  EXPECT_EQ(table.find(1, ttl, noon), b);
  EXPECT_FALSE(table.look_up(1, ttl, noon).confirmed);
}

TEST(AffinityTable, ListsThoseThatWereUsedLast) {
  AffinityTable table(100);
  constexpr Tag other = 14;
  table.pin(1, AffinityTable::none, other, ttl, noon);
  table.pin(2, AffinityTable::none, b, ttl, noon + 2s);
  table.pin(3, AffinityTable::none, b, ttl, noon + 4s);
  table.confirm(2, b, ttl, noon + 5s);

  const AffinityTable::Listing listing = table.list(2, ttl, noon + 6s);

  ASSERT_EQ(listing.newest.size(), 2u);
  EXPECT_EQ(listing.newest[0].tag, b);
  EXPECT_EQ(listing.newest[0].idle, 1s);
  EXPECT_TRUE(listing.newest[0].confirmed);
  EXPECT_EQ(listing.newest[1].idle, 2s);
  EXPECT_FALSE(listing.newest[1].confirmed);
  EXPECT_EQ(listing.by_backend.at(other), 1u);
  EXPECT_EQ(listing.by_backend.at(b), 2u);
  EXPECT_TRUE(table.list(2, ttl, noon + 31min).newest.empty());
  EXPECT_TRUE(table.list(0, ttl, noon + 6s).newest.empty());
}

TEST(AffinityTable, CountsABackendsSessionsWithAndWithoutState) {
  AffinityTable table(100);
  table.pin(1, AffinityTable::none, b, ttl, noon);
  table.learn(2, b | AffinityTable::state_bit, ttl, noon);

  const AffinityTable::Listing listing = table.list(10, ttl, noon);

  EXPECT_EQ(listing.by_backend.size(), 1u);
  EXPECT_EQ(listing.by_backend.at(b & ~AffinityTable::state_bit), 2u);
}

TEST(AffinityTable, CountsTheSessionsOfBackendsWhoseTagsShareAPlace) {
  AffinityTable table(100'000);
  constexpr Tag far = 8192;
  for (std::uint64_t i = 0; i < 3000; ++i)
    table.pin(i, AffinityTable::none, b + i % 3 * far, ttl, noon);

  const AffinityTable::Listing listing = table.list(10, ttl, noon);

  EXPECT_EQ(listing.by_backend.size(), 3u);
  for (const Tag tag : {b, b + far, b + 2 * far}) EXPECT_EQ(listing.by_backend.at(tag), 1000u);
}

TEST(AffinityTable, RemembersTheLastMoves) {
  AffinityTable table(100);
  EXPECT_TRUE(table.moves().empty());
  for (std::uint64_t i = 0; i < AffinityTable::max_moves + 5; ++i)
    table.count_move(i, a, b, noon + std::chrono::seconds(i));

  const auto moves = table.moves();

  ASSERT_EQ(moves.size(), AffinityTable::max_moves);
  EXPECT_EQ(moves.front().time, noon + std::chrono::seconds(AffinityTable::max_moves + 4));
  EXPECT_EQ(moves.back().time, noon + 5s);
  EXPECT_EQ(moves.front().from, a);
  EXPECT_EQ(moves.front().to, b);
  EXPECT_EQ(table.stats().moves, AffinityTable::max_moves + 5);
}

TEST(AffinityTable, MovesAreCountedByAnyThreads) {
  AffinityTable table(100);
  std::vector<std::thread> threads;
  for (std::uint64_t thread = 0; thread < 3; ++thread) {
    threads.emplace_back([&table, thread] {
      for (std::uint64_t i = 0; i < 10'000; ++i) table.count_move(thread, thread, b, noon);
    });
  }
  for (int i = 0; i < 1'000; ++i) {
    for (const AffinityTable::Move& move : table.moves()) EXPECT_EQ(move.to, b);
  }
  for (std::thread& thread : threads) thread.join();

  EXPECT_EQ(table.stats().moves, 30'000u);
  EXPECT_FALSE(table.moves().empty());
}

TEST(AffinityTable, MovesWithItsSessionsToRoomOfAnotherSize) {
  AffinityTable table(5000);
  for (std::uint64_t session = 0; session < 500; ++session) {
    table.pin(session, AffinityTable::none, 11 + session % 2, ttl, noon);
  }
  table.count(1, AffinityTable::Use::hit);

  auto storage = AffinityTable::allocate(9000);
  table.pin(500, AffinityTable::none, a, ttl, noon);
  table.pin(0, 11, b, ttl, noon);
  table.move_to(std::move(storage));

  EXPECT_EQ(table.max_sessions(), 9000u);
  EXPECT_NE(table.take_former(), nullptr);
  EXPECT_EQ(table.stats().sessions, 501u);
  EXPECT_EQ(table.find(500, ttl, noon), a);
  EXPECT_EQ(table.find(0, ttl, noon), b);
  EXPECT_EQ(table.pin(0, b, a, ttl, noon), a);
  EXPECT_EQ(table.stats().hits, 1u);
  for (std::uint64_t session = 0; session < 500; ++session) {
    EXPECT_EQ(table.find(session, ttl, noon + 1min), 11 + session % 2);
  }
}

TEST(AffinityTable, PassesWholeSessionsWhileTheyReplaceEachOther) {
  // One full bucket. Two sessions take turns in the place that was idle longest: at any moment one
  // of them is there, at its own backend.
  AffinityTable table(7);
  for (std::uint64_t session = 3; session <= 8; ++session) {
    table.pin(session, AffinityTable::none, session, ttl, noon);
  }
  table.pin(1, AffinityTable::none, 1, ttl, noon, 1min);
  std::atomic<bool> stop{false};
  std::vector<std::thread> threads;
  for (int thread = 0; thread < 2; ++thread) {
    threads.emplace_back([&table, &stop] {
      for (std::uint64_t i = 0; !stop; ++i) {
        const std::uint64_t session = 1 + i % 2;
        table.pin(session, AffinityTable::none, session, ttl, noon, 1min);
      }
    });
  }

  int wrong = 0;
  std::vector<std::shared_ptr<const void>> former;
  for (int move = 0; move < 5'000; ++move) {
    table.move_to(AffinityTable::allocate(7));
    former.push_back(table.take_former());
    for (std::uint64_t session = 1; session <= 8; ++session) {
      const Tag found = table.find(session, ttl, noon);
      wrong += found == session || found == AffinityTable::none ? 0 : 1;
    }
  }
  stop = true;
  for (std::thread& thread : threads) thread.join();

  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(table.stats().sessions, 7u);
}

TEST(AffinityTable, NeverMixesSessionsOverThreads) {
  // Few buckets, so that threads replace each other's entries; each session has a tag of its own.
  AffinityTable table(20);
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int thread = 0; thread < 4; ++thread) {
    threads.emplace_back([&table, &wrong, thread] {
      for (std::uint64_t i = 0; i < 50'000; ++i) {
        const std::uint64_t session = (i * 7 + static_cast<std::uint64_t>(thread)) % 60;
        const Instant now = noon + i / 100 * 1s;
        const Tag found = table.find(session, ttl, now);
        if (found != AffinityTable::none && found != session + 1) ++wrong;
        if (found == AffinityTable::none) {
          table.pin(session, AffinityTable::none, session + 1, ttl, now);
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();

  EXPECT_EQ(wrong, 0);
  EXPECT_LE(table.stats().sessions, 21u);
}

}  // namespace
}  // namespace evenkeel
