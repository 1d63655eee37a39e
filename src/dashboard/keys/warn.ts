/** Warnings of the values in the form of a key or team. */
import type { KeyDocument, TeamDocument } from '../../documents/key.ts'
import { findWarnings, type Known, type Warned, type Warning } from '../../keys/warnings.ts'
import { nowMs } from '../api/clock.ts'
import { isMember } from '../api/session.ts'
import { useTeams } from '../teams/data.ts'
import { useModels } from './data.ts'
import { KEY_FORM, TEAM_FORM, type Values } from './values.ts'

/** Form values that make up each field. */
const NAMES: Readonly<Record<Warning['field'], readonly string[]>> = {
  models: ['models', 'scope', 'team'],
  scope: ['models', 'scope', 'team'],
  budget: ['budget', 'budget_period'],
  team: ['team'],
  expires_ms: ['expires_ms', 'expires_on'],
}

interface Of {
  values: Values
  /** Null for a new one. */
  before: KeyDocument | TeamDocument | null
  /** Of the untouched form. */
  initial: Values
  read(values: Values, nowMs: number): Partial<Warned>
}

function useWarnings({ values, before, initial, read }: Of): Warning[] {
  const models = useModels().data
  const team = useTeams().data?.find(({ id }) => id === values.team)
  const known: Known = {
    nowMs: nowMs.value,
    spent: before === null ? {} : toSpent(before),
    // Members don't learn which models are local.
    models: models === null || (values.scope === 'local' && isMember()) ? null : models,
    team: team ? { ...team, spent: team.spent_nano_usd } : null,
  }
  const isChanged = (field: Warning['field']) =>
    before === null || NAMES[field].some((name) => values[name] !== initial[name])
  try {
    const typed = { models: [], scope: 'all', budget_nano_usd: null, budget_period: null, ...read(values, known.nowMs) }
    return findWarnings(typed as Warned, known, isChanged)
  } catch {
    // A value can't be read, which the form says when it is sent.
    return []
  }
}

/** The current budget's period, and those that are always known. */
const toSpent = ({ budget_period, spent_nano_usd, ...spent }: KeyDocument | TeamDocument): Known['spent'] => ({
  ...{ month: spent.spent_month_nano_usd, total: spent.spent_total_nano_usd },
  ...(budget_period === null || spent_nano_usd === null ? {} : { [budget_period]: spent_nano_usd }),
})

export const useKeyWarnings = (values: Values, before: KeyDocument | null = null) =>
  useWarnings({
    ...{ values, before, initial: before === null ? KEY_FORM.empty : KEY_FORM.toValues(before) },
    read: (typed, now) => KEY_FORM.toBody(typed, now, isMember()),
  })

export const useTeamWarnings = (values: Values, before: TeamDocument | null = null) =>
  useWarnings({
    ...{ values, before, initial: before === null ? TEAM_FORM.empty : TEAM_FORM.toValues(before) },
    read: (typed, now) => TEAM_FORM.toBody(typed, now),
  })
