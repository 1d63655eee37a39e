/**
 * Several editors of one key, in any order: accepted edits are based on the state they replace, and nothing is lost
 * silently.
 */
import { expect, test } from 'bun:test'
import fc from 'fast-check'
import { mergeValues } from '../../src/dashboard/ui/merge.ts'
import { createKey } from '../../src/keys/service.ts'
import { forEachTest } from '../support/lifetime.ts'
import { createFixture } from './fixture.ts'

const fixture = forEachTest(createFixture)

const FIELDS = ['rpm', 'tpm', 'concurrency'] as const
type Held = { revision: string } & Record<(typeof FIELDS)[number], number | null>

const step = fc.record({
  editor: fc.integer({ min: 0, max: 2 }),
  /** Null reads the current state. */
  edit: fc.option(fc.dictionary(fc.constantFrom(...FIELDS), fc.integer({ min: 1, max: 4 }), { minKeys: 1 }), {
    freq: 2,
  }),
})

test('concurrent edits are applied one after another, or refused with the state that they missed', async () => {
  const owner = await fixture.signIn('owner')
  let made = 0
  await fc.assert(
    fc.asyncProperty(fc.array(step, { minLength: 2, maxLength: 12 }), async (steps) => {
      const name = `key-${made++}`
      await createKey(fixture.store, { name }, { actor: 'test', nowMs: fixture.clock.ms })
      const read = async (): Promise<Held> => (await owner.ask('GET', `/keys/${name}`)).body
      const held = await Promise.all([read(), read(), read()])
      let expected = { ...held[0] } as Held
      for (const { editor, edit } of steps) {
        // Stays below the limit of changes per minute.
        fixture.clock.ms += 250
        if (edit === null) {
          held[editor] = await read()
          continue
        }
        const { revision } = held[editor] ?? expected
        const { status, body } = await owner.ask('PATCH', `/keys/${name}`, {
          body: edit,
          headers: { 'if-match': `"${revision}"` },
        })
        const isCurrent = revision === expected.revision
        expect(status).toBe(isCurrent ? 200 : 412)
        if (isCurrent) {
          expected = { ...expected, ...edit, revision: body.revision }
          held[editor] = body
        } else expect(body.error).toMatchObject({ kind: 'revision_conflict', revision: expected.revision })
        const now = await read()
        expect(FIELDS.map((field) => now[field])).toEqual(FIELDS.map((field) => expected[field]))
      }
    }),
    { numRuns: 20, seed: 32 },
  )
})

test('a form is merged with saved changes by field: each value is kept, or is a conflict', () => {
  const values = fc.record({
    a: fc.constantFrom('1', '2', '3'),
    b: fc.constantFrom('1', '2'),
    c: fc.constantFrom('1', '2'),
  })
  const groups = [['a', 'b']]
  fc.assert(
    fc.property(values, values, values, (before, mine, now) => {
      const merged = mergeValues(before, mine, now, groups)
      for (const names of [...groups, ['c']]) {
        const of = (side: Record<string, string>) => names.map((name) => side[name]).join()
        const isAsked = merged.both.some((one) => one.names.join() === names.join())
        const [mineChanged, theyChanged] = [of(mine) !== of(before), of(now) !== of(before)]
        expect(isAsked).toBe(mineChanged && theyChanged && of(mine) !== of(now))
        expect(of(merged.values)).toBe(mineChanged || !theyChanged ? of(mine) : of(now))
      }
    }),
    { seed: 32 },
  )
})
