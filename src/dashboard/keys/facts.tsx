/** What is told of a key and of a team alike: what it has spent, its budget, its limits, its models. */
import type { KeyDocument } from '../../documents/key.ts'
import type { Limits } from '../../domain/limits.ts'
import { Bar, Money, None, When } from '../ui/figure.tsx'
import { BUDGET_KINDS, type Budgeted, toBudgetText, toLimitsText } from './words.ts'

/** How much of a budget is spent. */
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

type Spending = Pick<KeyDocument, 'spent_month_nano_usd' | 'spent_total_nano_usd'>

export const Spent = ({ of: { spent_month_nano_usd, spent_total_nano_usd } }: { of: Spending }) => (
  <dl class="headline">
    <div>
      <dt>this month, UTC</dt>
      <dd>
        <Money nanoUsd={spent_month_nano_usd} />
      </dd>
    </div>
    <div>
      <dt>in all</dt>
      <dd>
        <Money nanoUsd={spent_total_nano_usd} />
      </dd>
    </div>
  </dl>
)

type Shared = Budgeted & Limits & Pick<KeyDocument, 'models' | 'scope'>

/** Stands in a list of facts. */
export const SharedFacts = ({ of }: { of: Shared }) => (
  <>
    <dt>Budget</dt>
    <dd>
      {of.budget_nano_usd === null ? (
        'none'
      ) : (
        <>
          <BudgetCell {...of} />
          {of.budget_reset_ms !== null && (
            <p class="hint">
              Begins anew <When ms={of.budget_reset_ms} />
            </p>
          )}
        </>
      )}
    </dd>
    <dt>Limits</dt>
    <dd>{toLimitsText(of) || 'none'}</dd>
    <dt>Models</dt>
    <dd>
      {of.models.length === 0
        ? 'every model'
        : of.models.map((pattern) => (
            <p key={pattern}>
              <code>{pattern}</code>
            </p>
          ))}
      {of.scope === 'local' && <p>on local upstreams alone</p>}
    </dd>
  </>
)
