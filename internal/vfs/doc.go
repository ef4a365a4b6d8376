// Package vfs is the part of a file system that stored data needs: positioned reads and writes, and explicit durability.
//
// It carries the broker's log (broker/store), the state files of the agent and the client (tail4go, client) and the files
// that sinks publish (sinks/file). OS is the real one; Mem keeps everything in memory and can be crashed; package faultfs
// below makes calls of either fail.
//
// # What a crash of Mem may leave
//
// The model is meant to be at least as unkind as ext4 and XFS with their default options, on a disk that writes a sector of
// 512 bytes whole or not at all. Beside that sector, the order of names within a directory is all it grants beyond POSIX.
//
// Content. What was in the file at its last Sync or Datasync is there, as far as no later write or truncation touched
// it. Each later write is there whole, not at all, or in part: its beginning up to a sector boundary, or any of its
// sectors. The writes are independent of each other, a later one may survive an earlier one. Each later truncation has
// happened or not. If a write made the file longer, the file may be longer although the data is not there, and then reads as
// zeros in its place. Bytes of a sector that a lost write did not touch keep their synced values.
//
// Names. A file's Sync says nothing about its name: a file created, synced and not yet in a synced directory may be
// gone. Of the creations, removals and renames in a directory since its last SyncDir some are done, from the first to one
// chosen at random: none happens without those before it in that directory, as journaling file systems have it, while
// different directories are independent. A rename between two directories is in the sequence of both, so that a name is never
// in both of them or in none. Moving a directory to another directory comes after every change made before it anywhere.
// A directory whose own name is lost is lost with all that is below.
//
// Not modelled: sectors damaged by an interrupted write, old disk content showing up in grown files, loss of what was synced.
package vfs
