/** Settings: from the first place that has them, and every wrong one named at once. */
import { expect, test } from 'bun:test'
import { toServeConfig } from '../src/config.ts'

const read = (heartbeat?: string) =>
  toServeConfig({ flags: heartbeat === undefined ? {} : { heartbeat }, environment: {}, settings: {} }).heartbeatMs

test.each([
  [undefined, 10_000],
  ['1s', 1_000],
  ['500ms', null],
  ['15', 15_000],
  ['1m', 60_000],
  ['2m', null],
  ['off', 0],
  ['0', null],
  ['often', null],
])('a heartbeat of %p is %p ms', (text, ms) => {
  if (ms === null) expect(() => read(text)).toThrow(`--heartbeat is '${text}': expected a time from 1s to 60s, or off.`)
  else expect(read(text)).toBe(ms)
})

test('a flag comes before the environment, and that before the settings', () => {
  const environment = { TOLLGATE_PORT: '2' }
  const settings = { port: '3', host: '::1' }
  expect(toServeConfig({ flags: { port: '1' }, environment, settings })).toMatchObject({ port: 1, host: '::1' })
  expect(toServeConfig({ flags: {}, environment, settings })).toMatchObject({ port: 2 })
  expect(() =>
    toServeConfig({ flags: { port: 'x' }, environment: { TOLLGATE_DRAIN: 'soon' }, settings: { durability: 'some' } }),
  ).toThrow(/--port is 'x'[\s\S]*TOLLGATE_DRAIN is 'soon'[\s\S]*the setting durability is 'some'/)
})
