/**
 * Bun macros that embed each format's compiled checker at build or load time, since compiling a schema takes as long as the rest of a first
 * response.
 */
import type { TSchema } from '@sinclair/typebox'
import { TypeCompiler } from '@sinclair/typebox/compiler'
import { RequestSchema } from '../domain/request.ts'
import { EmbeddingSchema } from './embeddings/schema.ts'
import { GeminiSchema } from './gemini/schema.ts'
import { EditsSchema, ImagesSchema } from './images/schema.ts'
import { CountSchema, MessagesSchema } from './messages/schema.ts'
import { ModerationsSchema } from './moderations/schema.ts'
import { RerankSchema } from './rerank/schema.ts'
import { ResponsesSchema } from './responses/schema.ts'
import { SpeechSchema } from './speech/schema.ts'

const toCode = (schema: TSchema): string => TypeCompiler.Code(schema, { language: 'javascript' })

export const chatChecker = (): string => toCode(RequestSchema)
export const messagesChecker = (): string => toCode(MessagesSchema)
export const countChecker = (): string => toCode(CountSchema)
export const responsesChecker = (): string => toCode(ResponsesSchema)
export const geminiChecker = (): string => toCode(GeminiSchema)
export const embeddingsChecker = (): string => toCode(EmbeddingSchema)
export const rerankChecker = (): string => toCode(RerankSchema)
export const speechChecker = (): string => toCode(SpeechSchema)
export const imagesChecker = (): string => toCode(ImagesSchema)
export const editsChecker = (): string => toCode(EditsSchema)
export const moderationsChecker = (): string => toCode(ModerationsSchema)
