/** Fields that changed: as they were, struck through, and as they are. */

import type { FieldChange } from '../figures/field-change.ts'

export const FieldChanges = ({ of: changes }: { of: readonly FieldChange[] }) => (
  <dl class="change-fields">
    {changes.map(({ field, before, after }) => (
      <div key={field}>
        <dt>{field}</dt>
        <dd>
          {before !== null && (
            <del>
              <span class="unseen">from </span>
              {before}
            </del>
          )}
          {before !== null && after !== null && <span aria-hidden="true"> → </span>}
          {after !== null && (
            <ins>
              <span class="unseen"> to </span>
              {after}
            </ins>
          )}
        </dd>
      </div>
    ))}
  </dl>
)
