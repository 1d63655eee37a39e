/**
 * A request for embeddings, as everything behind its format sees it, and what is sent back. The canonical request carries it, so that
 * what estimates, counts and bills requests bills these, too. Types and constants only.
 */

/** Where the canonical request has it: no name that a client could give a field. */
export const EMBEDDING: unique symbol = Symbol('embedding')

/** A text, or the numbers of its tokens in the model's vocabulary. */
export type EmbeddingInput = string | readonly number[]

export interface EmbeddingRequest {
  /** Never empty, and none of them is. */
  inputs: readonly EmbeddingInput[]
  /** How many numbers a vector is to have; null = as many as the model gives. */
  dimensions: number | null
  /** What the client wants a vector written as: numbers, or the base64 of little-endian 32-bit floats. */
  encoding: 'float' | 'base64'
}

/** As its upstream has written it: what came as numbers keeps all of their digits. All of them are finite. */
export type Vector = Float32Array | readonly number[]
