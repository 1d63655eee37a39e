/** What is told of a key and of a team alike: what it has spent, its budget, its limits, its models. */
import type { KeyDocument } from '../../documents/key.ts'
import { Money, When } from '../ui/figure.tsx'
import { BudgetCell } from './budget.tsx'
import { type Budgeted, toLimitsText } from './words.ts'

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

export type Shared = Budgeted & Pick<KeyDocument, 'rpm' | 'tpm' | 'concurrency' | 'models' | 'scope'>

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
