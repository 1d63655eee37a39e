/** A new team: a name is enough. */
import { open, toHref } from '../address/address.ts'
import { Page } from '../shell/page.tsx'
import { Form, useForm } from '../ui/form.tsx'
import { tell } from '../ui/notice.tsx'
import { makeTeam } from './data.ts'
import { TeamFields } from './fields.tsx'
import { NEW_TEAM } from './form-values.ts'

export function NewTeamPage() {
  const form = useForm(NEW_TEAM, async (values) => {
    const { id, name } = await makeTeam(values)
    tell(`Team ${name} is made.`)
    open(`/teams?team=${id}`)
  })
  return (
    <Page title="New team" above={<a href={toHref('/teams')}>Teams</a>}>
      <div class="panel narrow">
        <Form of={form} submit="Make the team" beside={<a href={toHref('/teams')}>Cancel</a>}>
          <TeamFields form={form} />
        </Form>
      </div>
    </Page>
  )
}
