/** Kinds of requests for the playground. Keep it light: the forms load later. */
import { keysOf } from '../../domain/json.ts'
import { endpointsOf } from '../../domain/models.ts'
import type { OtherEndpoint } from '../../domain/task.ts'

export type PlayedEndpoint = 'chat' | OtherEndpoint

/** In the order of the list of models. */
export const TITLES: Readonly<Record<PlayedEndpoint, string>> = {
  chat: 'Chat',
  speech: 'Speech',
  transcriptions: 'Transcription',
  translations: 'Translation into English',
  images: 'Images',
  image_edits: 'Image edits',
  rerank: 'Reranking',
  moderations: 'Moderation',
  embeddings: 'Embeddings',
}
export const PLAYED = keysOf(TITLES)

/** Empty for realtime models. @param made the model's output modalities */
export const toPlayed = (made: readonly string[]): PlayedEndpoint[] =>
  endpointsOf(made).filter((endpoint) => endpoint !== 'realtime')
