/** Parses catalogs for the tests of this folder. */
import { expect } from 'bun:test'
import { parseCatalog } from '../../src/catalog/file.ts'
import { ServiceError } from '../../src/domain/service-error.ts'

export const parse = (text: string, environment = {}) => parseCatalog(text, { name: 'catalog.yaml', environment })

/** The problem lines of a catalog that must be refused. */
export async function problemsOf(text: string): Promise<string[]> {
  const error = await parse(text).catch((cause: unknown) => cause)
  if (!(error instanceof ServiceError)) throw new Error('The catalog was accepted.')
  expect(error.failure.kind).toBe('catalog_invalid')
  return error.message.split('\n').slice(1)
}
