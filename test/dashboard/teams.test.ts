/** Teams: form values converted for the API. */
import { describe, expect, test } from 'bun:test'
import { Refusal } from '../../src/dashboard/api/refusal.ts'
import { TEAM_FORM, type Values } from '../../src/dashboard/keys/values.ts'
import type { TeamDocument } from '../../src/documents/key.ts'

const { empty: NEW_TEAM, toValues } = TEAM_FORM
const toBody = (values: Values) => TEAM_FORM.toBody(values, 0)

describe('form values of a team', () => {
  test('are converted for the API, and empty means no limit', () => {
    expect(toBody({ ...NEW_TEAM, name: ' research ', models: 'openai/*, a/b', budget: '200', max_keys: '' })).toEqual({
      ...{ name: 'research', models: ['openai/*', 'a/b'], scope: 'all', rpm: null, tpm: null, concurrency: null },
      ...{ budget_nano_usd: 200_000_000_000, budget_period: 'month', max_keys: null, metadata: {} },
    })
  })

  test('are prefilled from the team', () => {
    const team: TeamDocument = {
      ...{
        id: '1',
        revision: '0',
        name: 'research',
        models: ['a/b'],
        scope: 'local',
        rpm: 60,
        tpm: null,
        concurrency: null,
      },
      ...{ budget_nano_usd: 500_000_000, budget_period: 'day', max_keys: 3, metadata: {}, spent_nano_usd: 0 },
      ...{ budget_reset_ms: 1, budget_state: 'ok', spent_month_nano_usd: 0, spent_total_nano_usd: 0, created_ms: 0 },
      ...{ refused_24h: 0, last_refused_ms: null, last_refused_code: null },
    }
    const values = toValues(team)
    expect(values).toMatchObject({ models: 'a/b', scope: 'local', rpm: '60', budget: '0.5', budget_period: 'day' })
    expect(toBody(values)).toMatchObject({ rpm: 60, budget_nano_usd: 500_000_000, max_keys: 3 })
  })

  test('are refused at their field', () => {
    const refusal = () => toBody({ ...NEW_TEAM, name: 'a', max_keys: 'many' })
    expect(refusal).toThrow(Refusal)
    expect(refusal).toThrow(expect.objectContaining({ field: 'max_keys' }))
  })
})
