/** The lists of docs/reference/passthrough.md match the code, and have every name of the client libraries' types. */
import { expect, test } from 'bun:test'
import { readWritten, toAllLists } from '../sdk-fields.ts'
import { openSdkTypes } from '../support/sdk-types.ts'

test("the tables match the code, and have every field and tool of the client libraries' types", async () => {
  const types = await openSdkTypes()
  const lists = await toAllLists(types)
  await types.close()
  expect(lists).toContain('thread')
  // `bun test/sdk-fields.ts` writes the tables and names new entries.
  expect(await readWritten()).toBe(lists)
})
