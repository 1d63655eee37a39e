/** Effect of free health checks on an upstream's credentials: results of calls win, and requests retry suspended ones. */
import { expect, test } from 'bun:test'
import { UpstreamError } from '../../src/domain/error.ts'
import type { Target, Upstream } from '../../src/domain/snapshot.ts'
import { createHealth } from '../../src/health/health.ts'
import type { Readiness } from '../../src/upstreams/backend.ts'
import { toModel, toSnapshot, toTarget } from '../support/snapshot.ts'

const wrong: Readiness = { state: 'refused', reason: '/models returned 401: wrong', isWrong: true }
const mayNotList: Readiness = { state: 'refused', reason: '/models returned 403: may not', isWrong: false }
const refusal = new UpstreamError('status', 'no', { status: 401 })

/** An upstream with this many credentials; null means a missing one. */
function toMany(...credentials: (string | null)[]): Target {
  const { upstream, ...target } = toTarget({ secrets: credentials.flatMap((one) => one ?? []) })
  const each: Upstream[] = []
  credentials.forEach((credential, index) => {
    if (credential !== null) each.push({ ...upstream, credential, credentialNumber: index + 1, each })
  })
  const [first = upstream] = each
  return { ...target, upstream: { ...first, each } }
}

function setUp(target = toMany('a', 'b')) {
  let ms = 1_000
  const health = createHealth({ nowMs: () => ms, wallMs: () => ms })
  const renew = (at: Target) =>
    health.renew({
      ...toSnapshot([toModel('acme/large', [at])]),
      upstreams: new Map([[at.upstream.id, at.upstream]]),
    })
  renew(target)
  const eachOf = ({ upstream }: Target) => upstream.each ?? [upstream]
  const request = health.forRequest({ id: 'k1', teamId: null })
  const one = (number: number, at = target) => {
    const found = eachOf(at).find(({ credentialNumber }) => credentialNumber === number)
    if (!found) throw new Error(`There is no credential ${number}.`)
    return found
  }
  const choose = (conversation: string, at = target) =>
    request.withCredential(at, eachOf(at), conversation, new Set())?.credentialNumber
  return {
    ...{ health, renew, request, target, one, choose },
    leftOut: () => health.states()[0]?.suspended.map(({ number, reason }) => [number, reason]),
    state: () => health.states()[0],
    pass: (byMs: number) => {
      ms += byMs
    },
  }
}

test("one that may not list models stays in use, and its upstream isn't deprioritized, but the state reports it", () => {
  for (const target of [toMany('a', 'b'), toTarget()]) {
    const { health, request, leftOut, state } = setUp(target)
    health.probed(target.upstream.each?.[1] ?? target.upstream, mayNotList)
    expect<unknown[]>([leftOut(), request.availability(target), state()?.state]).toEqual([[], 'healthy', 'healthy'])
    expect(state()?.last_error?.message).toEndWith('/models returned 403: may not')
  }
})

test('one that a check rejects is suspended with that reason, but not while calls succeed', () => {
  const { health, request, target, one, leftOut } = setUp()
  health.probed(one(2), wrong)
  expect(leftOut()).toEqual([[2, '/models returned 401: wrong']])
  request.report(target, 'ok', one(2))
  health.probed(one(2), wrong)
  expect(leftOut()).toEqual([])
  // Revoked in between.
  request.report(target, refusal, one(2))
  request.report(target, 'aborted', one(2))
  expect(leftOut()).toMatchObject([[2, expect.stringContaining('returned 401')]])
})

test("a call's error isn't overwritten by a check's rejection", () => {
  const { health, request, target, one, state } = setUp()
  request.report(target, refusal, one(1))
  health.probed(one(2), mayNotList)
  expect(state()?.last_error?.message).toContain('returned 401')
})

test('a check leaves it to a request to try a credential whose suspension is over', () => {
  const { health, request, target, one, choose, pass } = setUp()
  const [state] = health.inUse()
  const probed = state?.toProbe().credentialNumber ?? 0
  const about = Array.from({ length: 50 }, (_, index) => `About ${index}`).find((text) => choose(text) === probed) ?? ''
  request.report(target, refusal, one(probed))
  pass(300_000)
  expect(state?.toProbe().credentialNumber).toBe(probed)
  expect(choose(about)).toBe(probed)
  // During that trial, other requests use the rest.
  expect(choose(about)).not.toBe(probed)
})

test("a credential that moves to another's number doesn't inherit its state", () => {
  const { request, target, renew, one, leftOut } = setUp(toMany(null, 'a', 'b'))
  request.report(target, refusal, one(2))
  renew(toMany(null, 'a', 'b'))
  expect(leftOut()).toMatchObject([[2, expect.any(String)]])
  renew(toMany('a', 'b'))
  expect(leftOut()).toEqual([])
})
