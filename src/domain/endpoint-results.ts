/** Validated results of endpoints other than chats and embeddings. */
import type { AnswerEvent } from './events.ts'
import type { MadeImages } from './images.ts'
import type { Transcript } from './transcriptions.ts'

export interface RankedDocument {
  /** Index in the request's documents, from 0; no duplicates. */
  index: number
  /** Finite. */
  score: number
}

export interface Moderation {
  flagged: boolean
  categories: Readonly<Record<string, boolean>>
  scores: Readonly<Record<string, number>>
  /** Kinds of input that each category was checked for; null if the upstream doesn't report them. */
  appliedTo: Readonly<Record<string, readonly string[]>> | null
}

export type EndpointResult =
  /** Best first. */
  | { of: 'rerank'; documents: readonly RankedDocument[] }
  /** One per input, in order. */
  | { of: 'moderations'; moderations: readonly Moderation[] }
  | Transcript
  | MadeImages

type ResultOf<Name extends EndpointResult['of']> = Extract<EndpointResult, { of: Name }>

/** Throws if there is no result, which dialects must prevent. */
export function resultOf<Name extends EndpointResult['of']>(of: Name, events: readonly AnswerEvent[]): ResultOf<Name> {
  for (const event of events) {
    if (event.kind === 'result' && isOf(of, event.result)) return event.result
  }
  throw new Error(`the response has no ${of}`)
}

const isOf = <Name extends EndpointResult['of']>(of: Name, result: EndpointResult): result is ResultOf<Name> =>
  result.of === of
