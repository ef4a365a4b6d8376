// Package vfs is the part of a file system that stored data needs: positioned reads and writes, and explicit durability.
//
// It carries the broker's log (broker/store), the agent's and the client's state files (tail4go, client) and the files that
// sinks publish (sinks/file). OS is the real one. Package faultfs below makes calls of either fail.
package vfs
