/**
 * Run while the code is built or loaded, as macros of Bun's: what they return stands in the code then, the body of a function that returns
 * the checker of a format's requests and needs nothing from outside. To compile a schema takes as long as the rest of a first answer.
 */
import type { TSchema } from '@sinclair/typebox'
import { TypeCompiler } from '@sinclair/typebox/compiler'
import { RequestSchema } from '../domain/request.ts'
import { EmbeddingSchema } from './embeddings/schema.ts'
import { CountSchema, MessagesSchema } from './messages/schema.ts'
import { ResponsesSchema } from './responses/schema.ts'

const toCode = (schema: TSchema): string => TypeCompiler.Code(schema, { language: 'javascript' })

export const chatChecker = (): string => toCode(RequestSchema)
export const messagesChecker = (): string => toCode(MessagesSchema)
export const countChecker = (): string => toCode(CountSchema)
export const responsesChecker = (): string => toCode(ResponsesSchema)
export const embeddingsChecker = (): string => toCode(EmbeddingSchema)
