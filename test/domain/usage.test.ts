import { expect, test } from 'bun:test'
import { MODE, toMode } from '../../src/domain/usage.ts'

const SAID: [said: unknown[], mode: string | null][] = [
  [[undefined], null],
  [[null], null],
  [['default'], null],
  [['auto'], null],
  [['standard', 'standard', 'global'], null],
  [['standard', 'standard', 'not_available'], null],
  [['on_demand'], null],
  [['ON_DEMAND'], null],
  [['TRAFFIC_TYPE_UNSPECIFIED'], null],
  [['flex'], 'flex'],
  [['priority'], 'priority'],
  [['SERVICE_TIER_FLEX'], 'flex'],
  [['ON_DEMAND_PRIORITY'], 'priority'],
  [['PROVISIONED_THROUGHPUT'], 'provisioned_throughput'],
  [['standard', 'fast', 'global'], 'fast'],
  [['standard', 'standard', 'us'], 'us'],
  [['standard', 'us', 'fast'], 'fast+us'],
  [['flex', 'ON_DEMAND_FLEX'], 'flex'],
  [[7, {}, 'flex'], 'flex'],
  [['  Very odd\n"tier" '], 'very_odd_tier_'],
  [['…', '.x'], 'x'],
  [['x'.repeat(1_000)], 'x'.repeat(40)],
]

for (const [said, mode] of SAID) {
  test(`${JSON.stringify(said).slice(0, 60)} is the mode ${mode ?? 'most are'}`, () => {
    expect(toMode(...said)).toBe(mode)
    if (mode !== null) expect(mode).toMatch(MODE)
  })
}
