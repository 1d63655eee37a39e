/** How a key or a team stands, as fields of its document; those of a budget are null without one. */
import type { Standing } from '../keys/standing.ts'

export const toStandingFields = ({ budget: standing, monthNanoUsd, totalNanoUsd }: Standing) => ({
  budget_nano_usd: standing?.budget.nanoUsd ?? null,
  budget_period: standing?.budget.period ?? null,
  spent_nano_usd: standing?.spentNanoUsd ?? null,
  budget_reset_ms: standing?.resetMs ?? null,
  budget_state: standing?.state ?? null,
  spent_month_nano_usd: monthNanoUsd,
  spent_total_nano_usd: totalNanoUsd,
})
