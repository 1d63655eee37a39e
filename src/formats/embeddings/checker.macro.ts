/** Run while the code is built or loaded, as a macro of Bun's: what it returns stands in the code then. */
import { TypeCompiler } from '@sinclair/typebox/compiler'
import { EmbeddingSchema } from './schema.ts'

/** The body of a function that returns the checker of requests, which needs nothing from outside. */
export const toEmbeddingChecker = (): string => TypeCompiler.Code(EmbeddingSchema, { language: 'javascript' })
