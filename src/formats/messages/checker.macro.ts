/** Run while the code is built or loaded, as macros of Bun's: what they return stands in the code then. */
import { TypeCompiler } from '@sinclair/typebox/compiler'
import { CountSchema, MessagesSchema } from './schema.ts'

/** The bodies of functions that return the checkers of requests, which need nothing from outside. */
export const toMessagesChecker = (): string => TypeCompiler.Code(MessagesSchema, { language: 'javascript' })
export const toCountChecker = (): string => TypeCompiler.Code(CountSchema, { language: 'javascript' })
