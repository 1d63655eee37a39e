/** A new team: a name is enough. */
import { open } from '../address/address.ts'
import { FormPage } from '../shell/form-page.tsx'
import { useForm } from '../ui/form.tsx'
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
    <FormPage title="New team" list={['/teams', 'Teams']} form={form} submit="Make the team">
      <TeamFields form={form} />
    </FormPage>
  )
}
