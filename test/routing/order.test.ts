/** The order in which targets are tried: priorities, weights over conversations, and health. */
import { describe, expect, test } from 'bun:test'
import type { Message } from '../../src/domain/request.ts'
import type { Target } from '../../src/domain/snapshot.ts'
import { toAffinity } from '../../src/formats/chat/chat.ts'
import type { Availability } from '../../src/health/health.ts'
import { order } from '../../src/routing/route.ts'
import { toTarget } from '../support/snapshot.ts'

const target = (id: string, fields: Partial<Target> = {}): Target => ({ ...toTarget({ id }), ...fields })
const healthy = (): Availability => 'healthy'
/** What these messages share with the rest of their conversation. */
const body =
  (...messages: Message[]) =>
  () =>
    toAffinity(messages)
const user = (content: string): Message => ({ role: 'user', content })
const ids = (targets: Target[]) => targets.map(({ upstream }) => upstream.id)

const key = { id: 'k1' }

/** For how many of these conversations each target comes first. */
function share(targets: Target[], conversations: number, availability = healthy): Record<string, number> {
  const firsts: Record<string, number> = {}
  for (let i = 0; i < conversations; i++) {
    const [first] = ids(order(targets, key, body(user(`question ${i}`)), availability))
    if (first !== undefined) firsts[first] = (firsts[first] ?? 0) + 1
  }
  return firsts
}

describe('the order of targets', () => {
  test('is by priority, the lowest number first', () => {
    const targets = [target('c', { priority: 2 }), target('a'), target('b', { priority: 1 })]
    for (let i = 0; i < 50; i++) expect(ids(order(targets, key, body(user(`${i}`)), healthy))).toEqual(['a', 'b', 'c'])
  })

  test('distributes conversations within a priority by weight', () => {
    const firsts = share([target('one', { weight: 1 }), target('three', { weight: 3 })], 4_000)
    // The hashes are fixed, and so are these counts: a quarter and three quarters, within two standard deviations.
    expect(Math.abs((firsts.one ?? 0) - 1_000)).toBeLessThan(60)
  })

  test('distributes the rest by weight, too, so that a failing target burdens all others', () => {
    const targets = [target('a'), target('b'), target('c')]
    const seconds = new Set<string | undefined>()
    for (let i = 0; i < 50; i++) {
      const [first, second] = ids(order(targets, key, body(user(`${i}`)), healthy))
      if (first === 'a') seconds.add(second)
    }
    expect(seconds).toEqual(new Set(['b', 'c']))
  })

  test('keeps a growing conversation on its target, whatever follows the first question', () => {
    const targets = ['a', 'b', 'c', 'd'].map((id) => target(id))
    const beginning: Message[] = [{ role: 'system', content: 'Be brief.' }, user('What is a gateway?')]
    const longer: Message[] = [...beginning, { role: 'assistant', content: 'A door.' }, user('Which one?')]
    expect(order(targets, key, body(...longer), healthy)).toEqual(order(targets, key, body(...beginning), healthy))
  })

  test.each([
    ['instructions', body({ role: 'system', content: 'Be brief.' }, user('Hi')), key],
    ['first question', body(user('Hello')), key],
    ['key', body(user('Hi')), { id: 'k2' }],
  ])('may differ with another %s', (_, other, otherKey) => {
    const targets = Array.from({ length: 40 }, (_, i) => target(`t${i}`))
    expect(ids(order(targets, otherKey, other, healthy))).not.toEqual(
      ids(order(targets, key, body(user('Hi')), healthy)),
    )
  })

  test("moves only a removed target's share", () => {
    const targets = ['a', 'b', 'c'].map((id) => target(id))
    for (let i = 0; i < 200; i++) {
      const before = ids(order(targets, key, body(user(`${i}`)), healthy))
      const after = ids(order(targets.slice(0, 2), key, body(user(`${i}`)), healthy))
      expect(after).toEqual(before.filter((id) => id !== 'c'))
    }
  })

  test('puts degraded targets after all healthy ones, whatever their priority, and omits unavailable ones', () => {
    const targets = [target('degraded'), target('unavailable'), target('healthy', { priority: 9 })]
    const availability = ({ upstream }: Target) =>
      upstream.id === 'healthy' ? 'healthy' : (upstream.id as Availability)
    expect(ids(order(targets, key, body(user('Hi')), availability))).toEqual(['healthy', 'degraded'])
  })

  test.each([
    ['healthy', ['only']],
    ['degraded', ['only']],
    ['unavailable', []],
  ] as [Availability, string[]][])('of one target that is %s is %j', (availability, expected) => {
    expect(ids(order([target('only')], key, body(user('Hi')), () => availability))).toEqual(expected)
  })

  test('distinguishes conversations that begin with different images and the same text', () => {
    const image = (url: string): Message => ({
      role: 'user',
      content: [
        { type: 'text', text: 'What is this?' },
        { type: 'image_url', image_url: { url } },
      ],
    })
    const targets = Array.from({ length: 40 }, (_, i) => target(`t${i}`))
    const ordered = (url: string) => ids(order(targets, key, body(image(url)), healthy))
    expect(ordered('data:image/png;base64,AAAA')).not.toEqual(ordered('data:image/png;base64,AAAB'))
  })
})
