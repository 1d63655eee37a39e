/** How much of a budget is spent, of a key or of a team. */
import { Bar, None } from '../ui/figure.tsx'
import { BUDGET_KINDS, type Budgeted, toBudgetText } from './words.ts'

export function BudgetCell(of: Budgeted) {
  if (of.budget_nano_usd === null) return <None />
  const text = toBudgetText(of)
  return (
    <span class="budget">
      <Bar share={toBudgetShare(of)} kind={BUDGET_KINDS[of.budget_state ?? 'ok']} label={`${text} is spent`} />
      <span class="figure-text">{text}</span>
    </span>
  )
}

/** Of 1; -1 without a budget. */
export const toBudgetShare = ({ budget_nano_usd, spent_nano_usd }: Budgeted) =>
  budget_nano_usd === null ? -1 : (spent_nano_usd ?? 0) / budget_nano_usd
