// Package pipelinetest is for tests of what a topology is made of. It feeds on package pipeline and is imported by tests only.
//
//   - [Run] feeds values through stages and returns what came out: a bolt's test in a few lines.
//   - [Source] and [Sink] are in memory, can be made to wait and to fail, and know what was acknowledged and stored.
//   - [SpoutSuite] and [SinkSuite] hold the contracts of pipeline.Source and pipeline.Sink; every spout and every sink, of
//     this module and of others, should pass them.
package pipelinetest
