/** A request for embeddings, as everything behind its format sees it, and what is sent back. */
import type { JsonObject } from './json.ts'

/** A text, or the numbers of its tokens in the model's vocabulary. */
export type EmbeddingInput = string | readonly number[]

/** One of the two kinds of requests that models are sent; a class, so that no field which a client sends with a chat makes one. */
export class EmbeddingsRequest {
  /** It writes nothing. */
  readonly max_tokens = 0

  /**
   * @param model as the client names it.
   * @param inputs never empty, and none of them is.
   * @param dimensions how many numbers a vector is to have; null = as many as the model gives.
   * @param encoding what the client wants a vector written as: numbers, or the base64 of little-endian 32-bit floats.
   * @param user who it is for, as the client names them.
   * @param extras fields that only its upstream may know.
   */
  constructor(
    readonly model: string,
    readonly inputs: readonly EmbeddingInput[],
    readonly dimensions: number | null,
    readonly encoding: 'float' | 'base64',
    readonly user: string | null,
    readonly extras: Readonly<JsonObject>,
  ) {}

  /** The same of other inputs. */
  of(inputs: readonly EmbeddingInput[]): EmbeddingsRequest {
    const { model, dimensions, encoding, user, extras } = this
    return new EmbeddingsRequest(model, inputs, dimensions, encoding, user, extras)
  }
}

/** As its upstream has written it: what came as numbers keeps all of their digits. All of them are finite. */
export type Vector = Float32Array | readonly number[]
