// Returns memory of past bursts: from a thread's free lists to the heap, from there to the system.
#pragma once

namespace evenkeel {

/// Empties this thread's free lists of `Pooled` objects, and of `Block`s. For a thread that has
/// less to do than before: takes about a millisecond. Thread: any.
void release_cached_objects();
void release_cached_blocks();

/// Returns the heap's free pages to the system. Takes 10 to 25 ms per 100 MiB; threads that
/// allocate may wait for it: malloc locks one arena after the other, each while its pages are
/// returned. Thread: any.
void release_free_pages();

}  // namespace evenkeel
