/** Differences between a response and a schema. */
import type { TSchema } from '@sinclair/typebox'
import { Value } from '@sinclair/typebox/value'

/** The first few; empty if it matches. */
export const toProblems = (schema: TSchema, answer: unknown): string[] =>
  [...Value.Errors(schema, answer)].slice(0, 3).map(({ path, message }) => `${path}: ${message}`)
