/** The lists of docs/reference/passthrough.md match the code, and have every name of the client libraries' types. */
import { expect, test } from 'bun:test'
import { readWritten, toAllLists } from '../sdk-fields.ts'
import { openSdkTypes } from '../support/sdk-types.ts'

test('every field and tool that the types of the client libraries have stands in the tables, with what the code does', async () => {
  const types = await openSdkTypes()
  const lists = await toAllLists(types)
  await types.close()
  expect(lists).toContain('thread')
  // `bun test/sdk-fields.ts` writes them and names what is new.
  expect(await readWritten()).toBe(lists)
})
